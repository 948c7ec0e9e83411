// What a transformer layer and the loss communicate over the tensor group.
#include <gtest/gtest.h>

#include "tensor_parallel_support.hpp"
#include "training_support.hpp"

namespace tessera::testing {
namespace tensor_parallel_traffic_test {

// tiny_config(): 16 features, 8 positions, 2 samples a microbatch, 4 microbatches on one data rank.
constexpr i64 kMicrobatches = 4, kRows = 2 * 8, kHidden = 16, kBytes = 4;
constexpr i64 kActivation = kRows * kHidden * kBytes;  // Φ
constexpr i64 kStart = 256;  // a parameter begins at a multiple of so many bytes in its bucket

struct Traffic {
  GroupCounters step;     ///< one forward and backward pass over the batch
  GroupCounters forward;  ///< of as many samples, without backward
};

Traffic traffic(i64 layers, i64 ranks = 2, bool sequence_parallel = false) {
  Traffic found;
  TrainOptions options;
  options.before_update = [&](RankRun& run) {
    if (run.mesh().rank() == 0) found.step = run.mesh().group(Axis::tensor).counters();
  };
  options.at_end = [&](RankRun& run) {
    ProcessGroup& group = run.mesh().group(Axis::tensor);
    group.reset_counters();
    run.evaluation().validate(8);
    if (run.mesh().rank() == 0) found.forward = group.counters();
  };
  train(tiny_config(),
        {fmt::format("model.layers={}", layers),
         fmt::format("parallel.tensor={}", ranks),
         fmt::format("parallel.sequence_parallel={}", sequence_parallel)},
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

struct Row {
  CollectiveKind kind;
  i64 forward, step;  // calls a layer and microbatch
  i64 bytes;          // of one call
};

// What deep sends more than shallow.
GroupCounters::Entry more(const GroupCounters& deep,
                          const GroupCounters& shallow,
                          CollectiveKind kind) {
  return {deep[kind].calls - shallow[kind].calls, deep[kind].bytes - shallow[kind].bytes};
}

// Forward, a layer gathers the rows of two inputs and reduce-scatters two outputs; backward it does
// the conjugates, and gathers the two inputs once more for the weights' gradients.
TEST(Traffic, UnderSequenceParallelismALayerGathersAndReduceScatters) {
  for (const i64 ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    const Traffic two = traffic(2, ranks, true), four = traffic(4, ranks, true);
    constexpr i64 kLayers = 2;  // more in one than in the other
    for (const Row& row : {Row{CollectiveKind::all_gather, 2, 2 + 2 + 2, kActivation / ranks},
                           Row{CollectiveKind::reduce_scatter, 2, 2 + 2, kActivation}}) {
      SCOPED_TRACE(collective_name(row.kind));
      const auto forward = more(four.forward, two.forward, row.kind);
      EXPECT_EQ(forward.calls, row.forward * kLayers * kMicrobatches);
      EXPECT_EQ(forward.bytes, row.forward * kLayers * kMicrobatches * row.bytes);
      const auto step = more(four.step, two.step, row.kind);
      EXPECT_EQ(step.calls, row.step * kLayers * kMicrobatches);
      EXPECT_EQ(step.bytes, row.step * kLayers * kMicrobatches * row.bytes);
    }
    // Only the gradients of two norms and two biases are all-reduced, once a step, with those of
    // all other layers in one message. Each of them is shorter than what it takes of the bucket.
    static_assert(kHidden * kBytes < kStart);
    EXPECT_EQ(more(four.forward, two.forward, CollectiveKind::all_reduce).calls, 0);
    EXPECT_EQ(more(four.step, two.step, CollectiveKind::all_reduce).calls, 0);
    EXPECT_EQ(more(four.step, two.step, CollectiveKind::all_reduce).bytes,
              (2 * 2 + 2) * kLayers * kStart);
    for (const CollectiveKind kind :
         {CollectiveKind::broadcast, CollectiveKind::all_to_all, CollectiveKind::exchange}) {
      EXPECT_EQ(four.step[kind].calls, 0) << collective_name(kind);
    }
  }
}

// Around the layers: the embedding's reduce-scatter, the head's gather, and backward the conjugates
// and one more gather; of all-reduces the three scalars a row, and the gradients of position table
// and last norm.
TEST(Traffic, UnderSequenceParallelismEmbeddingAndHeadKeepTheirRows) {
  const Traffic one = traffic(1, 2, true), two = traffic(2, 2, true);
  const auto around = [&](auto pass, CollectiveKind kind) {
    return (one.*pass)[kind].bytes - more(two.*pass, one.*pass, kind).bytes;
  };
  const i64 part = kActivation / 2;
  EXPECT_EQ(around(&Traffic::forward, CollectiveKind::all_gather), kMicrobatches * part);
  EXPECT_EQ(around(&Traffic::forward, CollectiveKind::reduce_scatter), kMicrobatches * kActivation);
  EXPECT_EQ(around(&Traffic::step, CollectiveKind::all_gather), kMicrobatches * 3 * part);
  EXPECT_EQ(around(&Traffic::step, CollectiveKind::reduce_scatter),
            kMicrobatches * 2 * kActivation);
  EXPECT_EQ(around(&Traffic::forward, CollectiveKind::all_reduce),
            kMicrobatches * 3 * kRows * kBytes);
  EXPECT_EQ(around(&Traffic::step, CollectiveKind::all_reduce),
            kMicrobatches * 3 * kRows * kBytes + 8 * kHidden * kBytes + 2 * kStart);
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
    std::vector<Tensor> logits{rank.tensor({kN, kLocal}, random_values(kN * kLocal, 1))};
    logits[0] = logits[0].with_var(kNeedsGradient);
    const Tensor targets = rank.tensor({kN}, DType::i64, {0, 99, 50, 49, 7, 77});
    const Tensor mask = rank.tensor({kN}, DType::u8, Values(kN, 1));
    const Tensor weight = rank.tensor({1}, DType::fp64, {1.0 / kN});
    Context cx = rank.context();
    Tape tape;
    cx.tape = &tape;
    cx.loss_scale = rank.tensor({1}, DType::fp64, {1});
    const Tape::FrameId frame = tape.begin(logits);
    const Tensor loss = ops::cross_entropy(
        cx, logits[0], targets, mask, weight, rank.index() * kLocal, kLocal, group, "loss");
    tape.root(loss);
    tape.end();
    EXPECT_EQ(group.counters()[CollectiveKind::all_reduce].calls, 2);
    EXPECT_EQ(group.counters()[CollectiveKind::all_reduce].bytes, 3 * kN * kBytes);
    std::vector<Tape::Gradient> gradients;
    tape.backward(cx, frame, Half::both, gradients);
    EXPECT_EQ(group.counters()[CollectiveKind::all_reduce].calls, 2) << "backward needs none";
  });
}

}  // namespace tensor_parallel_traffic_test
}  // namespace tessera::testing
