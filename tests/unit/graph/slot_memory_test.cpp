// What graph slots refuse, before and while they are replayed.
#include <gmock/gmock.h>

#include "block_support.hpp"
#include "tessera/testing/workbench.hpp"
#include "tests/common/error_of.hpp"

namespace tessera::testing {
namespace slot_memory_test {

using ::testing::HasSubstr;

void on_one_rank(const std::function<void(LocalRank&)>& body) {
  block_world().run(block_options("cpu"), body);
}

class SlotMemory : public ::testing::Test {
 protected:
  // Two slots for all phases of two blocks.
  static void with_slots(bool split,
                         const std::function<void(TwoBlocks&, GraphSlots&, LocalRank&)>& body) {
    on_one_rank([&](LocalRank& rank) {
      TwoBlocks blocks(rank);
      const auto slots = blocks.slots(0, 3, 2, split);
      Arena scratch(rank.device().pool(), slots->scratch_bytes(), rank.device().stream());
      slots->capture(scratch);
      body(blocks, *slots, rank);
    });
  }
};

TEST_F(SlotMemory, RecomputeKeepsLess) {
  i64 bytes[2] = {};
  for (const bool recompute : {false, true}) {
    on_one_rank([&](LocalRank& rank) {
      TwoBlocks blocks(rank, recompute);
      const auto slots = blocks.slots(0, static_cast<int>(blocks.phases().size()) - 1, 1);
      Arena scratch(rank.device().pool(), slots->scratch_bytes(), rank.device().stream());
      slots->capture(scratch);
      for (const AddressRange& range : slots->memory(0)[0].kept) {
        bytes[recompute ? 1 : 0] += range.bytes;
      }
    });
  }
  EXPECT_LT(bytes[1] * 2, bytes[0]);
}

// Memory that somebody else has already.
class Taken final : public Pool {
 public:
  explicit Taken(const AddressRange& range) : address_(const_cast<void*>(range.address)) {}
  Block allocate(i64 bytes, Category category, Stream& stream) override {
    return {address_, bytes, category, &stream};
  }
  void release(const Block&) override {}

 private:
  void* address_;
};

TEST_F(SlotMemory, ScratchInsideALiveSlotIsRejected) {
  with_slots(false, [](TwoBlocks& blocks, GraphSlots& first, LocalRank& rank) {
    const auto second = blocks.slots(2, 3, 1);
    // The second range's scratch lies where the first keeps its first slot's values.
    Taken taken(first.memory(0)[0].kept.front());
    Arena inside(taken, second->scratch_bytes(), rank.device().stream());
    second->capture(inside);
    LiveMemory live;
    live.replay(first.memory(0)[0]);
    const std::string error = error_of([&] { live.replay(second->memory(0)[0]); });
    EXPECT_THAT(error, HasSubstr("graph \"phases 2-3 slot 0 forward\" writes"));
    EXPECT_THAT(error, HasSubstr("\"phases 0-3 slot 0 forward\" has"));
  });
}

TEST_F(SlotMemory, HoldsItsMicrobatchUntilTheBackward) {
  with_slots(false, [](TwoBlocks&, GraphSlots& slots, LocalRank&) {
    LiveMemory live;
    live.replay(slots.memory(0)[0]);
    live.replay(slots.memory(1)[0]);
    EXPECT_THROW(live.replay(slots.memory(0)[0]), Error);
  });
}

TEST_F(SlotMemory, HoldsItsMicrobatchUntilTheWeightHalf) {
  with_slots(true, [](TwoBlocks&, GraphSlots& slots, LocalRank&) {
    const auto memory = slots.memory(0);
    ASSERT_EQ(memory.size(), 3U);
    LiveMemory live;
    live.replay(memory[0]);
    live.replay(memory[1]);
    EXPECT_EQ(error_of([&] { live.replay(memory[0]); }),
              "graph \"phases 0-3 slot 0 forward\" overwrites the microbatch that its slot still "
              "holds after \"phases 0-3 slot 0 input half\"");
    live.replay(memory[2]);
    live.replay(memory[0]);
  });
}

// A mutant: slots that believe their microbatch is done with the input half.
TEST_F(SlotMemory, ReleasedAfterTheInputHalfIsFound) {
  with_slots(true, [](TwoBlocks&, GraphSlots& slots, LocalRank&) {
    const auto memory = slots.memory(0);
    GraphMemory input_half = memory[1];
    input_half.last = true;
    LiveMemory live;
    live.replay(memory[0]);
    live.replay(input_half);
    live.replay(memory[0]);  // the next microbatch
    EXPECT_THAT(error_of([&] { live.replay(memory[2]); }),
                HasSubstr("\"phases 0-3 slot 0 weight half\" runs before"));
  });
}

TEST_F(SlotMemory, ReplaysInTurnOnly) {
  with_slots(true, [](TwoBlocks& blocks, GraphSlots& slots, LocalRank&) {
    Context cx = blocks.context();
    PhaseFrame& frame = slots.frame(0);
    const auto inputs = [&](int microbatch) {
      Bundle bundle = blocks.bundle(microbatch);
      bundle[blocks.hidden()] = blocks.input(microbatch);
      return bundle;
    };
    Bundle bundle = inputs(1), next = inputs(2);
    SlotGradients gradients(bundle.tensors().size());
    EXPECT_EQ(error_of([&] { frame.backward(cx, Half::input, gradients); }),
              "graph \"phases 0-3 slot 0 input half\" is out of turn: its slot waits for "
              "\"phases 0-3 slot 0 forward\"");
    frame.forward(cx, bundle);
    frame.backward(cx, Half::input, gradients);
    EXPECT_EQ(error_of([&] { frame.forward(cx, next); }),
              "graph \"phases 0-3 slot 0 forward\" is out of turn: its slot waits for "
              "\"phases 0-3 slot 0 weight half\"");
    frame.backward(cx, Half::weight, gradients);
    frame.forward(cx, next);
  });
}

TEST_F(SlotMemory, AGradientThatIsNotThereIsZeroAndNotThatOfTheLastMicrobatch) {
  with_slots(false, [](TwoBlocks& blocks, GraphSlots& slots, LocalRank& rank) {
    Context cx = blocks.context();
    const auto run = [&](const Tensor& gradient) {
      Bundle bundle = blocks.bundle(1);
      bundle[blocks.hidden()] = blocks.input(1);
      slots.frame(0).forward(cx, bundle);
      SlotGradients gradients(bundle.tensors().size());
      gradients[static_cast<std::size_t>(blocks.hidden().index)].tensor = gradient;
      slots.frame(0).backward(cx, Half::both, gradients);
      return read(rank.parameters().front()->grad);
    };
    const auto once = run(blocks.gradient(1));
    EXPECT_NE(once, std::vector<double>(once.size()));
    EXPECT_EQ(run({}), once);
  });
}

TEST_F(SlotMemory, HalvesThatWereNotCapturedAreRefused) {
  with_slots(false, [](TwoBlocks& blocks, GraphSlots& slots, LocalRank&) {
    Context cx = blocks.context();
    SlotGradients gradients(blocks.bundle(1).tensors().size());
    EXPECT_EQ(error_of([&] { slots.frame(0).backward(cx, Half::input, gradients); }),
              "\"phases 0-3\" is captured with both halves of its backward pass in one graph");
    EXPECT_EQ(error_of([&] { slots.frame(0).release(cx); }),
              "\"phases 0-3\" is captured: its activations stay in its graph slot and are not "
              "recomputed");
  });
}

TEST_F(SlotMemory, OtherInputsThanThoseOfTheCaptureAreRefused) {
  with_slots(false, [](TwoBlocks& blocks, GraphSlots& slots, LocalRank&) {
    Context cx = blocks.context();
    Bundle bundle = blocks.bundle(1);
    EXPECT_EQ(error_of([&] { slots.frame(0).forward(cx, bundle); }),
              "\"phases 0-3\" was captured for an input fp32 [16, 16], not undefined");
    bundle[blocks.hidden()] = blocks.input(1).slice(0, 0, 8);
    EXPECT_EQ(error_of([&] { slots.frame(0).forward(cx, bundle); }),
              "\"phases 0-3\" was captured for an input fp32 [16, 16], not fp32 [8, 16]; a phase "
              "whose shapes change is Shapes::dynamic");
    bundle[blocks.hidden()] = blocks.input(1);
    for (Tensor& tensor : bundle.tensors()) {
      if (tensor.dtype() == DType::i64) tensor = tensor.with_var(kNeedsGradient);
    }
    EXPECT_EQ(error_of([&] { slots.frame(0).forward(cx, bundle); }),
              "\"phases 0-3\" was captured without a gradient of its input i64 [16], which needs "
              "one");
  });
}

// What was recorded before the error goes before the memory that it lies in.
TEST_F(SlotMemory, ACaptureThatFailsLeavesNothingBehind) {
  on_one_rank([](LocalRank& rank) {
    TwoBlocks blocks(rank);
    const i64 before = rank.device().memory().total;
    Bundle example = blocks.bundle(1);
    example[blocks.hidden()] = blocks.input(1).with_var(kNeedsGradient);
    for (const int failing : {1, 2}) {  // the warm-up, the capture
      int runs = 0;
      std::vector<Phase> phases = blocks.phases();
      phases.back().run = [&, inner = phases.back().run](Context& cx, Bundle& bundle) {
        inner(cx, bundle);
        if (++runs == failing) fail("it was too much");
      };
      const auto capture = [&] {
        GraphSlots slots(blocks.context(), {"blocks", phases, rank.parameters(), true}, example, 1);
        Arena scratch(rank.device().pool(), slots.scratch_bytes(), rank.device().stream());
        slots.capture(scratch);
      };
      EXPECT_EQ(error_of(capture), "it was too much");
      EXPECT_EQ(runs, failing);
    }
    example = Bundle(0, 0);
    EXPECT_EQ(rank.device().memory().total, before);
    EXPECT_FALSE(rank.device().capturing());
  });
}

TEST_F(SlotMemory, DynamicPhasesAreRefused) {
  on_one_rank([](LocalRank& rank) {
    Tape tape;
    Context cx = rank.context();
    cx.tape = &tape;
    std::vector<Phase> phases(1);
    phases[0].scope = "moe_dispatch";
    phases[0].shapes = Shapes::dynamic;
    CapturedPhases range{"layers.0", phases, {}};
    range.chosen = "run.toml:4:8: [graph] ";
    EXPECT_EQ(error_of([&] { GraphSlots slots(cx, range, rank.bundle(), 1); }),
              "run.toml:4:8: [graph] \"layers.0\" cannot be captured: the shapes of its phase "
              "\"moe_dispatch\" depend on "
              "data");
    phases[0].shapes = Shapes::fixed;
    phases[0].reads = {HostSlot{0}};
    EXPECT_EQ(error_of([&] { GraphSlots slots(cx, range, rank.bundle(), 1); }),
              "run.toml:4:8: [graph] \"layers.0\" cannot be captured: its phase \"moe_dispatch\" "
              "reads integers back to "
              "the host");
  });
}

}  // namespace slot_memory_test
}  // namespace tessera::testing
