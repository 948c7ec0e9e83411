#include "kernel/graph/step_graph.hpp"

#include <utility>

#include "tessera/error.hpp"

namespace tessera {

StepGraph::StepGraph(const Context& cx, Lifetimes asked)
    : asked_(std::move(asked)),
      arena_(cx.device->pool(), asked_.bytes(Lifetime::graph), *cx.stream) {
  require(asked_.bytes(Lifetime::slot) == 0,
          "a step keeps {} bytes that it took from its own pool, so it cannot be one graph",
          asked_.bytes(Lifetime::slot));
}

void StepGraph::run(Context cx, const Step& step) {
  pool_ = std::make_unique<SlotPool>(asked_, SlotArenas{&arena_, nullptr, nullptr});
  cx.pool = pool_.get();
  step(cx);
  pool_->end_graph();
}

void StepGraph::capture(const Context& cx, const Step& step) {
  require(!captured(), "a whole step is captured twice");
  cx.device->begin_capture(*cx.stream);
  try {
    run(cx, step);
    graph_ = cx.device->end_capture(*cx.stream);
  } catch (...) {
    cx.device->abort_capture();
    throw;
  }
}

void StepGraph::replay(const Context& cx) {
  require(captured(), "a whole step is replayed before it was captured");
  cx.device->replay(*graph_, *cx.stream);
}

}  // namespace tessera
