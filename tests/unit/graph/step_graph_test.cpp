#include "kernel/graph/step_graph.hpp"

#include "unit/tensor/tensor_support.hpp"

namespace tessera {
namespace step_graph_test {

using namespace testing_support;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A step adds the batch, which lies at a fixed address, to a weight, by way of its own memory.
class GraphOfAStep : public ::testing::TestWithParam<u64> {
 protected:
  GraphOfAStep() {
    cx_.device = &device_;
    cx_.stream = &device_.stream();
    cx_.pool = &device_.pool();
    fill(device_.stream(), weight_, 0);
    LifetimeRecorder asked(device_.pool());
    Context cx = cx_;
    cx.pool = &asked;
    step(cx);
    asked.end_graph(Lifetime::slot);
    asked_ = asked.lifetimes();
    fill(device_.stream(), weight_, 0);
    fill(device_.stream(), batch_, 0);
  }

  void step(Context& cx) {
    ++host_;
    const Tensor twice = testing_support::empty(device_, *cx.pool, {8});
    add(*cx.stream, batch_, batch_, twice);
    add(*cx.stream, weight_, twice, weight_);
  }
  StepGraph::Step step() {
    return [this](Context& cx) { step(cx); };
  }
  void next_batch(float value) { fill(device_.stream(), batch_, value); }
  void expect_weight(float value) { EXPECT_THAT(values(device_, weight_), Each(value)); }

  TestDevice device_{deferred(GetParam())};
  Tensor weight_ = testing_support::empty(device_, {8});
  Tensor batch_ = testing_support::empty(device_, {8});
  Context cx_;
  Lifetimes asked_;
  int host_ = 0;  // runs of the host's code
};

INSTANTIATE_TEST_SUITE_P(Modes, GraphOfAStep, ::testing::Values(0, 1, 2));

TEST_P(GraphOfAStep, ReadsTheBatchOfEachReplay) {
  StepGraph graph(cx_, asked_);
  next_batch(1);
  graph.run(cx_, step());
  expect_weight(2);
  graph.capture(cx_, step());
  expect_weight(2);  // nothing ran
  const int captured = host_;
  for (const float batch : {10.0F, 100.0F}) {
    next_batch(batch);
    graph.replay(cx_);
  }
  expect_weight(222);
  EXPECT_EQ(host_, captured) << "no host code runs again";
  next_batch(1000);
  graph.run(cx_, step());  // as it is, between replays
  next_batch(10000);
  graph.replay(cx_);
  expect_weight(22222);
}

TEST_P(GraphOfAStep, AsksForTheMemoryThatWasSeen) {
  StepGraph graph(cx_, asked_);
  EXPECT_EQ(graph.bytes(), 64);
  const StepGraph::Step other = [&](Context& cx) {
    testing_support::empty(device_, *cx.pool, {16});
  };
  EXPECT_THAT([&] { graph.run(cx_, other); },
              ThrowsMessage<Error>(HasSubstr("is not what its warm-up asked for")));
}

TEST_P(GraphOfAStep, IsDroppedWhereItsCaptureFails) {
  StepGraph graph(cx_, asked_);
  graph.run(cx_, step());
  const StepGraph::Step reads = [&](Context& cx) {
    step(cx);
    values(device_, weight_);
  };
  EXPECT_THAT([&] { graph.capture(cx_, reads); },
              ThrowsMessage<Error>(HasSubstr("host read of a tensor (fp32 [8]) while capturing")));
  EXPECT_FALSE(device_.capturing());
  EXPECT_FALSE(graph.captured());
  EXPECT_THAT([&] { graph.replay(cx_); },
              ThrowsMessage<Error>("a whole step is replayed before it was captured"));
}

TEST_P(GraphOfAStep, KeepsNothingOfItsPool) {
  LifetimeRecorder asked(device_.pool());
  const Tensor kept = testing_support::empty(device_, asked, {8});
  asked.end_graph(Lifetime::slot);
  EXPECT_THAT([&] { StepGraph graph(cx_, asked.lifetimes()); },
              ThrowsMessage<Error>("a step keeps 64 bytes that it took from its own pool, so it "
                                   "cannot be one graph"));
}

}  // namespace step_graph_test
}  // namespace tessera
