// What a transformer layer and the loss communicate over the tensor group.
#include <gtest/gtest.h>

#include "tensor_parallel_support.hpp"
#include "training_support.hpp"

namespace tessera::testing {
namespace {

// tiny_config(): 16 features, 8 positions, 2 samples a microbatch, 4 microbatches on one data rank.
constexpr i64 kMicrobatches = 4, kRows = 2 * 8, kHidden = 16, kBytes = 4;
constexpr i64 kActivation = kRows * kHidden * kBytes;  // Φ

struct Traffic {
  GroupCounters step;     ///< one forward and backward pass over the batch
  GroupCounters forward;  ///< of as many samples, without backward
};

Traffic traffic(i64 layers, i64 ranks = 2) {
  Traffic found;
  TrainOptions options;
  options.before_update = [&](Session& session) {
    if (session.mesh().rank() == 0) found.step = session.mesh().group(Axis::tensor).counters();
  };
  options.at_end = [&](Session& session) {
    ProcessGroup& group = session.mesh().group(Axis::tensor);
    group.reset_counters();
    session.validate(8);
    if (session.mesh().rank() == 0) found.forward = group.counters();
  };
  train(tiny_config(),
        {fmt::format("model.layers={}", layers), fmt::format("parallel.tensor={}", ranks)},
        options);
  return found;
}

TEST(Traffic, ALayerAllReducesTwiceForwardAndTwiceBackward) {
  for (const i64 ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    const Traffic one = traffic(1, ranks), two = traffic(2, ranks), four = traffic(4, ranks);
    const auto all_reduce = [](const GroupCounters& counters) {
      return counters[CollectiveKind::all_reduce];
    };
    for (const auto& [deep, shallow, layers] : {std::tuple{two, one, 1}, {four, two, 2}}) {
      const i64 forward = all_reduce(deep.forward).calls - all_reduce(shallow.forward).calls;
      const i64 step = all_reduce(deep.step).calls - all_reduce(shallow.step).calls;
      EXPECT_EQ(forward, 2 * layers * kMicrobatches);
      EXPECT_EQ(step - forward, 2 * layers * kMicrobatches);
      const i64 bytes = all_reduce(deep.step).bytes - all_reduce(shallow.step).bytes;
      EXPECT_EQ(bytes, 4 * layers * kMicrobatches * kActivation);
    }
    for (const CollectiveKind kind : {CollectiveKind::all_gather,
                                      CollectiveKind::reduce_scatter,
                                      CollectiveKind::broadcast,
                                      CollectiveKind::all_to_all,
                                      CollectiveKind::exchange}) {
      EXPECT_EQ(four.step[kind].calls, 0) << collective_name(kind);
    }
  }
}

// Around the layers: the embedding's sum, the gradient that enters the head, and per row of the
// loss one maximum and two sums, never logits.
TEST(Traffic, TheLossReducesThreeScalarsARow) {
  const i64 layer_bytes = 2 * kMicrobatches * kActivation;
  const GroupCounters::Entry forward = traffic(1).forward[CollectiveKind::all_reduce];
  EXPECT_EQ(forward.calls, (2 + 1 + 2) * kMicrobatches);
  EXPECT_EQ(forward.bytes - layer_bytes, kMicrobatches * (kActivation + 3 * kRows * kBytes));
}

TEST(Traffic, CrossEntropyAloneReducesThreeScalarsARow) {
  constexpr i64 kN = 6, kLocal = 50;
  local_world().run(tensor_ranks(2), [](LocalRank& rank) {
    ProcessGroup& group = rank.group(Axis::tensor);
    const Tensor logits = rank.tensor({kN, kLocal}, random_values(kN * kLocal, 1));
    const Tensor targets = rank.tensor({kN}, DType::i64, {0, 99, 50, 49, 7, 77});
    const Tensor mask = rank.tensor({kN}, DType::u8, Values(kN, 1));
    const Tensor weight = rank.tensor({1}, DType::f64, {1.0 / kN});
    Context cx = rank.context();
    Tape tape;
    cx.tape = &tape;
    cx.loss_scale = rank.tensor({1}, DType::f64, {1});
    const Tape::FrameId frame = tape.begin();
    const Tensor leaf = tape.leaf(logits);
    const Tensor loss = ops::cross_entropy(
        cx, leaf, targets, mask, weight, rank.index() * kLocal, kLocal, group, "loss");
    tape.root(loss);
    tape.end();
    EXPECT_EQ(group.counters()[CollectiveKind::all_reduce].calls, 2);
    EXPECT_EQ(group.counters()[CollectiveKind::all_reduce].bytes, 3 * kN * kBytes);
    const std::array into{leaf.var()};
    tape.backward(cx, frame, Half::both, {}, into);
    EXPECT_EQ(group.counters()[CollectiveKind::all_reduce].calls, 2) << "backward needs none";
  });
}

}  // namespace
}  // namespace tessera::testing
