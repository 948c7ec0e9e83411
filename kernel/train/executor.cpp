#include "kernel/train/executor.hpp"

#include <utility>

#include "tessera/comm.hpp"
#include "tessera/error.hpp"

namespace tessera {

// What the backward pass of one phase needs to know of its forward pass.
struct Executor::Frame {
  Tape::FrameId id = 0;
  std::vector<Var> inputs, outputs;  // by slot; 0 where nothing is tracked
};

// One microbatch of one chunk, from its first forward to its last backward.
struct Executor::Live {
  Bundle bundle;
  std::vector<Frame> frames;            // by phase of the plan
  std::vector<Tape::Result> gradients;  // by slot, at the boundary reached so far
  int open = 0;                         // phases forward done and not yet released
};

Executor::~Executor() = default;

Executor::Executor(std::vector<Chunk>& chunks,
                   const ModelParts& parts,
                   const GradientBuffer* gradients,
                   ProcessGroup* data)
    : parts_(parts), gradients_(gradients), data_(data) {
  for (const Chunk& chunk : chunks) {
    for (const Phase& phase : chunk.phases()) phases_.push_back(&phase);
    last_phase_of_chunk_.push_back(static_cast<int>(phases_.size()) - 1);
  }
}

const Phase& Executor::phase_of(const PlanAction& action) const {
  return *phases_.at(static_cast<std::size_t>(action.phase));
}

Executor::Live& Executor::live_of(Context& cx,
                                  const Plan& plan,
                                  const PlanAction& action,
                                  const Load& load) {
  const auto index = static_cast<std::size_t>(action.microbatch * plan.shape.chunks + action.chunk);
  if (live_.size() <= index) live_.resize(index + 1);
  if (live_[index] == nullptr) {
    live_[index] = std::make_unique<Live>(Live{parts_.bundle(), {}, {}, 0});
    live_[index]->frames.resize(phases_.size());
    live_[index]->gradients.resize(parts_.slots().size());
    load(cx, action.microbatch, live_[index]->bundle);
  }
  return *live_[index];
}

void Executor::forward(Context& cx, Live& live, const PlanAction& action, const Phase& phase) {
  Frame& frame = live.frames[static_cast<std::size_t>(action.phase)];
  std::vector<Tensor>& slots = live.bundle.tensors();
  frame.id = cx.tape->begin();
  frame.inputs.assign(slots.size(), {});
  frame.outputs.assign(slots.size(), {});
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].defined() || !slots[i].var()) continue;
    slots[i] = cx.tape->leaf(slots[i]);
    frame.inputs[i] = slots[i].var();
  }
  phase.run(cx, live.bundle);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].defined() && cx.tape->tracks(slots[i])) frame.outputs[i] = slots[i].var();
  }
  cx.tape->end();
  ++live.open;
}

void Executor::backward(Context& cx, Live& live, const PlanAction& action, Half half) {
  Frame& frame = live.frames[static_cast<std::size_t>(action.phase)];
  if (half == Half::weight) {
    cx.tape->backward(cx, frame.id, half, {}, {});
  } else {
    std::vector<Tape::Seed> seeds;
    std::vector<Var> into;
    std::vector<std::size_t> into_slots;
    for (std::size_t i = 0; i < frame.outputs.size(); ++i) {
      if (frame.outputs[i]) {
        Tape::Result& gradient = live.gradients[i];
        seeds.push_back(
            {frame.outputs[i], std::move(gradient.gradient), std::move(gradient.pending)});
      }
      live.gradients[i] = {};
      if (!frame.inputs[i]) continue;
      into.push_back(frame.inputs[i]);
      into_slots.push_back(i);
    }
    auto results = cx.tape->backward(cx, frame.id, half, std::move(seeds), into);
    for (std::size_t i = 0; i < results.size(); ++i) {
      live.gradients[into_slots[i]] = std::move(results[i]);
    }
  }
  if (half != Half::input) {
    cx.tape->release(frame.id);
    frame = {};
    --live.open;
  }
}

void Executor::train(Context cx, const Plan& plan, const Load& load, const Step& step) {
  require(gradients_ != nullptr && data_ != nullptr, "this executor is for evaluation only");
  std::vector<Work> reductions;
  for (const PlanAction& action : plan.actions) {
    if (before_action) before_action(action);
    switch (action.kind) {
      case PlanAction::F:
        forward(cx, live_of(cx, plan, action, load), action, phase_of(action));
        break;
      case PlanAction::B:
      case PlanAction::Bi:
      case PlanAction::Bw: {
        Live& live = live_of(cx, plan, action, load);
        const Half half = action.kind == PlanAction::B    ? Half::both
                          : action.kind == PlanAction::Bi ? Half::input
                                                          : Half::weight;
        backward(cx, live, action, half);
        if (live.open == 0) {
          live_[static_cast<std::size_t>(action.microbatch * plan.shape.chunks + action.chunk)]
              .reset();
        }
        break;
      }
      case PlanAction::Reduce:
        reductions.push_back(data_->all_reduce(
            gradients_->buckets().at(static_cast<std::size_t>(action.bucket)).flat,
            ReduceOp::sum,
            fmt::format("gradients bucket {}", action.bucket)));
        break;
      case PlanAction::Step:
        for (Work& work : reductions) work.wait(*cx.stream);
        step(cx);
        break;
      default:
        fail("the executor has no \"{}\"", action_name(action.kind));
    }
  }
}

void Executor::evaluate(Context cx, const Plan& plan, const Load& load, const Done& done) {
  cx.tape = nullptr;
  cx.mode = Mode::evaluate;
  for (const PlanAction& action : plan.actions) {
    require(
        action.kind == PlanAction::F, "a forward-only plan has \"{}\"", action_name(action.kind));
    Live& live = live_of(cx, plan, action, load);
    phase_of(action).run(cx, live.bundle);
    if (action.phase != last_phase_of_chunk_[static_cast<std::size_t>(action.chunk)]) continue;
    if (done) done(cx, action.microbatch, live.bundle);
    live_[static_cast<std::size_t>(action.microbatch * plan.shape.chunks + action.chunk)].reset();
  }
}

}  // namespace tessera
