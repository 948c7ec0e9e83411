// Phases of a chunk that are captured and replayed, in an order that is not the order of capture,
// give the bits of the eager run, whether their neighbours are captured too or not.
#include <gmock/gmock.h>

#include <map>

#include "block_support.hpp"
#include "kernel/graph/checked_frame.hpp"
#include "kernel/train/execution/live_chunk.hpp"
#include "tessera/collectives.hpp"
#include "tessera/ops.hpp"
#include "tessera/testing/workbench.hpp"
#include "tests/common/error_of.hpp"

namespace tessera::testing {
namespace block_capture_test {

using Values = std::vector<double>;

// What a microbatch gave, and what the parameters' gradients were in the end.
struct Outcome {
  std::map<int, Values> hidden, hidden_gradient;
  std::map<std::string, Values> parameter_gradients;
  bool operator==(const Outcome&) const = default;
};

// Microbatches 1, 2 and 3 on two slots: 3 takes that of 1.
enum Action { F, B, Bi, Bw };
using Order = std::vector<std::pair<Action, int>>;
const Order kWhole = {{F, 1}, {F, 2}, {B, 1}, {F, 3}, {B, 2}, {B, 3}};
const Order kSplit = {{F, 1}, {F, 2}, {Bi, 1}, {Bi, 2}, {Bw, 1}, {F, 3}, {Bi, 3}, {Bw, 2}, {Bw, 3}};
// As zbv and dualpipe_v have them.
const Order kMixed = {{F, 1}, {F, 2}, {Bi, 1}, {B, 2}, {Bw, 1}, {F, 3}, {B, 3}};
int slot_of(int microbatch) { return microbatch == 2 ? 1 : 0; }

Half half_of(Action action) {
  return action == B ? Half::both : action == Bi ? Half::input : Half::weight;
}

using Range = std::pair<int, int>;

struct CaptureCase {
  std::string name, device;
  std::vector<Range> captured;  ///< of phases 0 to 3
  Order order = kWhole;
  bool recompute = false;
  i64 ranks = 1;
};

constexpr u64 kDeferredSeeds = 4;

// Some of the chunk's phases on graph slots.
struct Captured {
  Range range;
  std::unique_ptr<GraphSlots> slots;
};

Outcome run(LocalRank& rank,
            TwoBlocks& blocks,
            const Order& order,
            const std::vector<Captured>& captured) {
  Context cx = blocks.context();
  const int phases = static_cast<int>(blocks.phases().size());
  Outcome outcome;
  std::map<int, LiveChunk> live;
  for (const auto& [action, microbatch] : order) {
    if (action == F) {
      LiveChunk& chunk =
          live.try_emplace(microbatch, blocks.bundle(microbatch), blocks.phases()).first->second;
      for (const auto& [range, slots] : captured) {
        chunk.set_frame(range.first, range.second, slots->frame(slot_of(microbatch)));
      }
      chunk.receive(blocks.hidden(), blocks.input(microbatch));
      for (int phase = 0; phase < phases; ++phase) chunk.forward(cx, phase);
      outcome.hidden[microbatch] = read(chunk.give_up(blocks.hidden()));
      continue;
    }
    LiveChunk& chunk = live.at(microbatch);
    if (action != Bw) chunk.set_gradient(blocks.hidden(), blocks.gradient(microbatch));
    for (int phase = phases - 1; phase >= 0; --phase) chunk.backward(cx, phase, half_of(action));
    if (action != Bw) {
      outcome.hidden_gradient[microbatch] = read(chunk.take_gradient(cx, blocks.hidden()));
    }
    EXPECT_EQ(chunk.finished(), action != Bi);
    if (chunk.finished()) live.erase(microbatch);
  }
  EXPECT_EQ(blocks.tape().live_frames(), 0);
  for (Parameter* parameter : rank.parameters()) {
    outcome.parameter_gradients[parameter->name] = read(parameter->grad);
    write(parameter->grad, Values(static_cast<std::size_t>(parameter->grad.elements())));
  }
  return outcome;
}

// The plan's replays on recorded addresses.
void check_memory(const Order& order, const std::vector<Captured>& captured) {
  LiveMemory live;
  for (const auto& [action, microbatch] : order) {
    for (const auto& [range, slots] : captured) {
      const auto memory = slots->memory(slot_of(microbatch));
      if (action == F) live.replay(memory[0]);
      if (action == B || action == Bi) live.replay(memory[1]);
      if (memory.size() == 3 && (action == B || action == Bw)) live.replay(memory[2]);
    }
  }
}

class BlockCapture : public ::testing::TestWithParam<CaptureCase> {};

TEST_P(BlockCapture, ReplayGivesTheBitsOfTheEagerRun) {
  const CaptureCase& c = GetParam();
  const auto body = [&c](LocalRank& rank) {
    TwoBlocks blocks(rank, c.recompute);
    const Outcome eager = run(rank, blocks, c.order, {});
    EXPECT_NE(eager.hidden.at(1), eager.hidden.at(3)) << "the inputs change";
    EXPECT_EQ(eager.parameter_gradients.size(), 24U) << "two norms and four linears a block";

    const bool split = c.order != kWhole;
    std::vector<Captured> captured;
    i64 scratch_bytes = 0;
    for (const Range& range : c.captured) {
      captured.push_back({range, blocks.slots(range.first, range.second, 2, split)});
      scratch_bytes = std::max(scratch_bytes, captured.back().slots->scratch_bytes());
    }
    Arena scratch(rank.device().pool(), scratch_bytes, rank.device().stream());
    for (const Captured& range : captured) range.slots->capture(scratch);
    for (const Parameter* parameter : rank.parameters()) {
      for (const double value : read(parameter->grad)) {
        ASSERT_EQ(value, 0) << "warm-up and capture leave gradients alone";
      }
    }
    check_memory(c.order, captured);
    for (int repeat = 0; repeat < 2; ++repeat) {
      EXPECT_TRUE(run(rank, blocks, c.order, captured) == eager) << "pass " << repeat;
    }
  };
  // Runs in order, then delayed and reordered as far as events allow.
  for (u64 seed = 0; seed <= kDeferredSeeds; ++seed) {
    SCOPED_TRACE(seed);
    block_world().run(block_options(c.device, c.ranks, seed), body);
  }
}

const std::vector<Range> kAll = {{0, 3}}, kMiddle = {{1, 2}}, kEnds = {{0, 0}, {3, 3}},
                         kEach = {{0, 1}, {2, 2}, {3, 3}};

INSTANTIATE_TEST_SUITE_P(
    Ranges,
    BlockCapture,
    ::testing::Values(CaptureCase{"all", "cpu", kAll},
                      CaptureCase{"all_split", "cpu", kAll, kSplit},
                      CaptureCase{"all_mixed", "cpu", kAll, kMixed},
                      CaptureCase{"reference", "reference", kAll},
                      CaptureCase{"reference_split", "reference", kAll, kSplit},
                      CaptureCase{"middle", "cpu", kMiddle},
                      CaptureCase{"middle_split", "cpu", kMiddle, kSplit},
                      CaptureCase{"ends", "cpu", kEnds},
                      CaptureCase{"ends_split", "cpu", kEnds, kSplit},
                      CaptureCase{"each_mixed", "cpu", kEach, kMixed},
                      CaptureCase{"recompute", "cpu", {{0, 1}}, kWhole, true},
                      CaptureCase{"recompute_split", "reference", {{0, 1}}, kSplit, true},
                      CaptureCase{"recompute_last", "cpu", {{1, 1}}, kSplit, true},
                      CaptureCase{"tp2", "reference", kAll, kWhole, false, 2},
                      CaptureCase{"tp2_split", "cpu", kAll, kSplit, false, 2},
                      CaptureCase{"tp2_middle", "cpu", kMiddle, kWhole, false, 2},
                      CaptureCase{"tp2_middle_split", "reference", kMiddle, kSplit, false, 2},
                      CaptureCase{"tp2_ends_mixed", "reference", kEnds, kMixed, false, 2},
                      CaptureCase{"tp2_recompute", "reference", {{0, 1}}, kSplit, true, 2}),
    [](const auto& info) { return info.param.name; });

// Mutants of what stands between a bundle and a graph. Two layers follow a captured one, so that
// each has to show.
Outcome run_with(LocalRank& rank,
                 TwoBlocks& blocks,
                 const std::function<void(CapturedPhases&)>& change,
                 const std::function<PhaseFrame&(PhaseFrame&)>& wrap) {
  Context cx = blocks.context();
  Bundle example = blocks.bundle(9);
  example[blocks.hidden()] = blocks.input(9).with_var(kNeedsGradient);
  CapturedPhases range{
      "layers.0", std::span(blocks.phases()).subspan(0, 2), rank.parameters(), false};
  change(range);
  GraphSlots slots(cx, range, example, 1);
  Arena scratch(rank.device().pool(), slots.scratch_bytes(), rank.device().stream());
  slots.capture(scratch);
  Outcome outcome;
  for (const int microbatch : {1, 2}) {
    LiveChunk chunk(blocks.bundle(microbatch), blocks.phases());
    chunk.set_frame(0, 1, wrap(slots.frame(0)));
    chunk.receive(blocks.hidden(), blocks.input(microbatch));
    for (int phase = 0; phase < 4; ++phase) chunk.forward(cx, phase);
    outcome.hidden[microbatch] = read(chunk.give_up(blocks.hidden()));
    chunk.set_gradient(blocks.hidden(), blocks.gradient(microbatch));
    for (int phase = 3; phase >= 0; --phase) chunk.backward(cx, phase, Half::both);
    outcome.hidden_gradient[microbatch] = read(chunk.take_gradient(cx, blocks.hidden()));
  }
  for (Parameter* parameter : rank.parameters()) {
    outcome.parameter_gradients[parameter->name] = read(parameter->grad);
    write(parameter->grad, Values(static_cast<std::size_t>(parameter->grad.elements())));
  }
  return outcome;
}

// Forgets that what a replay leaves needs a gradient.
class Unmarked final : public PhaseFrame {
 public:
  explicit Unmarked(PhaseFrame& of) : of_(of) {}
  void forward(Context& cx, Bundle& bundle) override {
    of_.forward(cx, bundle);
    for (Tensor& tensor : bundle.tensors()) tensor = tensor.with_var({});
  }
  void arrive(Context& cx, SlotGradients& gradients) override { of_.arrive(cx, gradients); }
  void backward(Context& cx, Half half, SlotGradients& gradients) override {
    of_.backward(cx, half, gradients);
  }
  void release(Context& cx) override { of_.release(cx); }

 private:
  PhaseFrame& of_;
};

TEST(ReplayMutants, ChangeTheOutcome) {
  block_world().run(block_options("cpu"), [](LocalRank& rank) {
    TwoBlocks blocks(rank);
    const auto as_it_is = [](PhaseFrame& frame) -> PhaseFrame& { return frame; };
    const Outcome right = run_with(
        rank, blocks, [](CapturedPhases&) {}, as_it_is);
    const Outcome eager = run(rank, blocks, {{F, 1}, {B, 1}, {F, 2}, {B, 2}}, {});
    EXPECT_TRUE(right == eager);

    const auto frozen = [&](CapturedPhases& range) {  // row ids are those of the capture
      const std::size_t slots = blocks.bundle(1).tensors().size();
      range.reads.assign(slots, false);
      range.reads.at(static_cast<std::size_t>(blocks.hidden().index)) = true;
    };
    EXPECT_NE(run_with(rank, blocks, frozen, as_it_is).hidden, right.hidden);

    std::vector<std::unique_ptr<Unmarked>> unmarked;
    const Outcome lost = run_with(
        rank,
        blocks,
        [](CapturedPhases&) {},
        [&](PhaseFrame& frame) -> PhaseFrame& {
          return *unmarked.emplace_back(std::make_unique<Unmarked>(frame));
        });
    EXPECT_EQ(lost.hidden, right.hidden);
    EXPECT_NE(lost.hidden_gradient, right.hidden_gradient);
    EXPECT_NE(lost.parameter_gradients, right.parameter_gradients);
  });
}

// A phase that keeps something on the host: its graph has what the capture saw.
TEST(CheckedReplay, NamesThePhaseThatCounts) {
  block_world().run(block_options("cpu"), [](LocalRank& rank) {
    TwoBlocks blocks(rank);
    int calls = 0;
    std::vector<Phase> phases(blocks.phases().begin(), blocks.phases().begin() + 2);
    const auto check = [&] {
      CapturedPhases range{"layers.0 attn to mlp", phases, rank.parameters(), false};
      range.layers = {"layers.0", "layers.0"};
      range.keep_boundaries = true;
      Bundle example = blocks.bundle(9);
      example[blocks.hidden()] = blocks.input(9).with_var(kNeedsGradient);
      Context cx = blocks.context();
      GraphSlots slots(cx, range, example, 1);
      Arena scratch(rank.device().pool(), slots.scratch_bytes(), rank.device().stream());
      slots.capture(scratch);
      const std::vector<std::string> names(example.tensors().size(), "hidden");
      CheckedFrame frame(slots, 0, names);
      LiveChunk chunk(blocks.bundle(1), phases);
      chunk.set_frame(0, 1, frame);
      chunk.receive(blocks.hidden(), blocks.input(1));
      for (int phase = 0; phase < 2; ++phase) chunk.forward(cx, phase);
      chunk.set_gradient(blocks.hidden(), blocks.gradient(1));
      for (int phase = 1; phase >= 0; --phase) chunk.backward(cx, phase, Half::both);
    };
    EXPECT_NO_THROW(check());
    const auto count = [&](Context& cx, const Tensor& of) {
      FillArgs args{of.slice(0, 0, 1).arg(), static_cast<double>(++calls)};
      ops::run(cx, args);
    };
    const auto expect_found = [&](const std::string& what) {
      EXPECT_THAT(
          error_of([&] { check(); }),
          ::testing::StartsWith(what + " differ between a replay and the phases as they run"));
    };
    const auto as_it_is = phases[1].run;
    phases[1].run = [&](Context& cx, Bundle& bundle) {
      as_it_is(cx, bundle);
      count(cx, bundle[blocks.hidden()]);
    };
    expect_found("layers.0 mlp, slot 0: \"hidden\" (fp32 [16, 16])");
    phases[1].run = [&](Context& cx, Bundle& bundle) {  // forward as it is, backward not
      as_it_is(cx, bundle);
      if (!cx.recording()) return;
      const Tensor x = bundle[blocks.hidden()];
      Tensor y = x.with_var({});
      Tensor* out = &y;
      cx.tape->record("counted", std::vector{x}, std::span(&out, 1), [&](Context& c, Gradients& g) {
        Tensor gradient = c.empty(g.output(0).shape(), DType::fp32);
        CopyArgs copy{g.output(0).arg(), gradient.arg()};
        ops::run(c, copy);
        count(c, gradient);
        g.input(0, std::move(gradient));
      });
      bundle[blocks.hidden()] = y;
    };
    expect_found("layers.0 attn to mlp, slot 0: gradients of \"hidden\" (fp32 [16, 16])");
  });
}

// Two phases read one value, the second of them twice, and so does whatever follows. An eager step
// adds the gradients of a phase first; a graph of both phases does the same.
TEST(SharedValues, GradientsAreAddedInTheOrderOfAnEagerStep) {
  block_world().run(block_options("cpu"), [](LocalRank& rank) {
    Workbench bench(rank.device());
    const auto weight = [&](u64 seed) {
      return bench.parameter("w", bench.random({16, 16}, DType::fp32, seed));
    };
    const auto first = weight(1), second = weight(2);
    const Slot shared = rank.slot("shared"), inner = rank.slot("inner");
    std::vector<Phase> phases(2);
    phases[0].run = [&](Context&, Bundle& bundle) { bundle[inner] = bundle[shared]; };
    phases[1].run = [&](Context& cx, Bundle& bundle) {
      const Tensor x = bundle[inner], y = ops::linear(cx, x, *first, nullptr);
      bundle[inner] = ops::add(cx, y, ops::linear(cx, x, *second, nullptr));
    };
    const Tensor x = bench.random({8, 16}, DType::fp32, 3);
    Tape tape;
    Context cx = rank.context();
    cx.tape = &tape;
    const auto gradient_by = [&](PhaseFrame* frame) {
      LiveChunk chunk(rank.bundle(), phases);
      if (frame != nullptr) chunk.set_frame(0, 1, *frame);
      chunk.receive(shared, x);
      for (int phase = 0; phase < 2; ++phase) chunk.forward(cx, phase);
      chunk.set_gradient(shared, bench.random({8, 16}, DType::fp32, 4));
      chunk.set_gradient(inner, bench.random({8, 16}, DType::fp32, 5));
      for (int phase = 1; phase >= 0; --phase) chunk.backward(cx, phase, Half::both);
      return read(chunk.take_gradient(cx, shared));
    };
    const Values eager = gradient_by(nullptr);
    CapturedPhases range{"both", phases, {first.get(), second.get()}, false};
    range.layers = {"layer", "layer"};
    range.keep_boundaries = true;
    Bundle example = rank.bundle();
    example[shared] = x.with_var(kNeedsGradient);
    GraphSlots slots(cx, range, example, 1);
    Arena scratch(rank.device().pool(), slots.scratch_bytes(), *cx.stream);
    slots.capture(scratch);
    EXPECT_EQ(gradient_by(&slots.frame(0)), eager);
    CheckedFrame checked(slots, 0, {"shared", "inner"});
    EXPECT_EQ(gradient_by(&checked), eager);
  });
}

// An embedding has a weight half only, and its gradient is still being gathered when the input half
// ends: the graph of the input half waits for it.
TEST(SplitHalves, AGraphWaitsForTheCollectivesThatItStarted) {
  constexpr i64 kIds = 4, kFeatures = 3;
  for (const u64 seed : {0, 1, 2, 3}) {
    block_world().run(block_options("reference", 2, seed), [](LocalRank& rank) {
      Workbench bench(rank.device());
      const auto table = bench.parameter("table", bench.random({8, kFeatures}, DType::fp32, 1));
      const Slot ids = rank.slot("ids"), hidden = rank.slot("hidden");
      std::vector<Phase> phases(1);
      phases[0].run = [&](Context& cx, Bundle& bundle) {
        const Tensor all = ops::embedding(cx, bundle[ids], *table);
        bundle[hidden] =
            collectives::reduce_scatter_rows(cx, all, rank.group(Axis::tensor), "embedding");
      };
      Bundle bundle = rank.bundle();
      bundle[ids] = rank.tensor({kIds}, DType::i64, {3, 1, 3, 0});
      Tape tape;
      Context cx = rank.context();
      cx.tape = &tape;

      const auto gradient_by = [&](PhaseFrame* frame) {
        LiveChunk chunk(bundle, phases);
        if (frame != nullptr) chunk.set_frame(0, 0, *frame);
        chunk.forward(cx, 0);
        chunk.set_gradient(hidden, bench.random({kIds / 2, kFeatures}, DType::fp32, 2));
        chunk.backward(cx, 0, Half::input);
        chunk.backward(cx, 0, Half::weight);
        const Values found = read(table->grad);
        write(table->grad, Values(found.size()));
        return found;
      };
      const Values eager = gradient_by(nullptr);
      EXPECT_NE(eager, Values(eager.size()));
      GraphSlots slots(cx, {"embedding", phases, {table.get()}, true}, bundle, 1);
      Arena scratch(rank.device().pool(), slots.scratch_bytes(), *cx.stream);
      slots.capture(scratch);
      EXPECT_EQ(gradient_by(&slots.frame(0)), eager);
      EXPECT_EQ(gradient_by(&slots.frame(0)), eager);
    });
  }
}

}  // namespace block_capture_test
}  // namespace tessera::testing
