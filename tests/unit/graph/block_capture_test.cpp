// A transformer block, captured once for each slot and replayed in an order that is not the order
// of capture, gives the bits of the eager run.
#include <gmock/gmock.h>

#include <map>

#include "kernel/graph/slot_graphs.hpp"
#include "tessera/ops.hpp"
#include "tessera/testing/local_world.hpp"
#include "tessera/testing/workbench.hpp"

namespace tessera {
namespace {

using testing::LocalRank;
using testing::LocalWorld;
using testing::LocalWorldOptions;
using testing::read;
using Values = std::vector<double>;

constexpr i64 kRows = 2 * 8, kHidden = 16;

struct CaptureCase {
  std::string device;
  bool recompute = false;
  u64 deferred_seed = 0;
  i64 ranks = 1;
};

// What a microbatch gave, and what the parameters' gradients were in the end.
struct Outcome {
  std::map<int, Values> hidden, hidden_gradient;
  std::map<std::string, Values> parameter_gradients;
  bool operator==(const Outcome&) const = default;
};

// Forward (positive) and backward (negative) of microbatches 1, 2 and 3 on two slots.
constexpr int kOrder[] = {1, 2, -1, 3, -2, -3};
int slot_of(int microbatch) { return microbatch == 2 ? 1 : 0; }

class BlockRun {
 public:
  BlockRun(LocalRank& rank, bool recompute)
      : rank_(rank),
        hidden_(rank.slot("hidden")),
        rows_(rank.slot("rows")),
        layer_(rank.build<Layer>("layers.0", "transformer_block")),
        phases_(layer_->phases()),
        empty_(rank.bundle()) {
    if (recompute) wrap();
    for (const Phase& phase : phases_) spec_.phases.push_back(&phase);
    spec_.name = "layers.0";
    spec_.parameters = rank.parameters();
    spec_.differentiable = {hidden_};
  }

  const SegmentSpec& spec() const { return spec_; }
  Bundle inputs(int microbatch) const {
    Bundle bundle = empty_;
    const auto seed = static_cast<u64>(microbatch);
    testing::Workbench bench(rank_.device());
    bundle[hidden_] = bench.random({kRows, kHidden}, DType::f32, seed);
    Values rows;
    for (i64 row = 0; row < kRows; ++row) {
      rows.push_back(static_cast<double>(row_id(microbatch * 2 + row / 8, row % 8)));
    }
    bundle[rows_] = rank_.tensor({kRows}, DType::i64, rows);
    return bundle;
  }
  Tensor gradient(int microbatch) const {
    testing::Workbench bench(rank_.device());
    return bench.random({kRows, kHidden}, DType::f32, 100 + static_cast<u64>(microbatch));
  }
  std::vector<Tensor> by_slot(const Tensor& gradient) const {
    Bundle bundle = empty_;
    bundle[hidden_] = gradient;
    return bundle.tensors();
  }
  Tensor hidden(Bundle& bundle) const { return bundle[hidden_]; }
  Tensor hidden(const std::vector<Tensor>& tensors) const {
    return tensors[static_cast<std::size_t>(hidden_.index)];
  }

  void collect_gradients(Outcome& outcome) {
    for (Parameter* parameter : rank_.parameters()) {
      outcome.parameter_gradients[parameter->name] = read(parameter->grad);
      testing::write(parameter->grad, Values(static_cast<std::size_t>(parameter->grad.elements())));
    }
  }

 private:
  // One phase that keeps its input only and runs the block's phases again for its backward.
  void wrap() {
    auto inner = std::make_shared<std::vector<Phase>>(std::move(phases_));
    phases_.clear();
    phases_.push_back({.scope = "block", .run = [this, inner](Context& cx, Bundle& bundle) {
                         const auto body = [this, inner, rows = bundle[rows_]](
                                               Context& c, const std::vector<Tensor>& x) {
                           Bundle again = empty_;
                           again[hidden_] = x[0];
                           again[rows_] = rows;
                           for (const Phase& phase : *inner) phase.run(c, again);
                           return std::vector<Tensor>{again[hidden_]};
                         };
                         bundle[hidden_] = ops::recompute(cx, {bundle[hidden_]}, body)[0];
                       }});
  }

  LocalRank& rank_;
  Slot hidden_, rows_;
  std::shared_ptr<Layer> layer_;
  std::vector<Phase> phases_;
  Bundle empty_;
  SegmentSpec spec_;
};

Outcome run_eager(BlockRun& block, Context cx) {
  struct Live {
    Tape::FrameId frame;
    Var input, output;
  };
  Outcome outcome;
  std::map<int, Live> live;
  for (const int action : kOrder) {
    const int microbatch = std::abs(action);
    if (action > 0) {
      Bundle bundle = block.inputs(microbatch);
      Live& now = live[microbatch];
      now.frame = cx.tape->begin();
      Tensor& hidden = bundle[block.spec().differentiable[0]];
      hidden = cx.tape->leaf(hidden);
      now.input = hidden.var();
      for (const Phase* phase : block.spec().phases) phase->run(cx, bundle);
      now.output = block.hidden(bundle).var();
      cx.tape->end();
      outcome.hidden[microbatch] = read(block.hidden(bundle));
    } else {
      const Live& now = live.at(microbatch);
      std::array seeds{Tape::Seed{now.output, block.gradient(microbatch)}};
      const std::array into{now.input};
      auto results = cx.tape->backward(cx, now.frame, Half::both, seeds, into);
      results[0].pending.wait(*cx.stream);
      outcome.hidden_gradient[microbatch] = read(results[0].gradient);
      cx.tape->release(now.frame);
    }
  }
  block.collect_gradients(outcome);
  return outcome;
}

Outcome run_captured(BlockRun& block, Context cx, SlotGraphs& graphs) {
  Outcome outcome;
  for (const int action : kOrder) {
    const int microbatch = std::abs(action);
    if (action > 0) {
      Bundle bundle = block.inputs(microbatch);
      graphs.forward(cx, slot_of(microbatch), bundle);
      outcome.hidden[microbatch] = read(block.hidden(bundle));
    } else {
      const auto gradients =
          graphs.backward(cx, slot_of(microbatch), block.by_slot(block.gradient(microbatch)));
      outcome.hidden_gradient[microbatch] = read(block.hidden(gradients));
    }
  }
  block.collect_gradients(outcome);
  return outcome;
}

const LocalWorld& world() {
  static const LocalWorld kWorld({TESSERA_BUILD_DIR "/plugins"});
  return kWorld;
}

LocalWorldOptions options(const CaptureCase& c) {
  LocalWorldOptions options;
  options.layout.world = options.layout.tensor = c.ranks;
  options.device = c.device;
  options.batch = {2, 8};
  options.deferred_seed = c.deferred_seed;
  options.values = {{"model.hidden", kHidden},
                    {"model.heads", 4},
                    {"model.layers", 1},
                    {"model.init_std", 0.2},
                    {"model.dropout", 0.1}};
  return options;
}

void check_order(const SlotGraphs& graphs) {
  LiveMemory live;
  for (const int action : kOrder) {
    const int slot = slot_of(std::abs(action));
    live.replay(action > 0 ? graphs.forward_memory(slot) : graphs.backward_memory(slot));
  }
}

class BlockCapture : public ::testing::TestWithParam<CaptureCase> {};

TEST_P(BlockCapture, ReplayGivesTheBitsOfTheEagerRun) {
  world().run(options(GetParam()), [](LocalRank& rank) {
    Tape tape;
    Context cx = rank.context();
    cx.tape = &tape;
    BlockRun block(rank, GetParam().recompute);
    const Outcome eager = run_eager(block, cx);
    EXPECT_NE(eager.hidden.at(1), eager.hidden.at(3)) << "the inputs change";
    EXPECT_EQ(eager.parameter_gradients.size(), 12U) << "two norms, four linears";

    SlotGraphs graphs(cx, block.spec(), block.inputs(9), 2);
    Arena scratch(rank.device().pool(), graphs.scratch_bytes(), *cx.stream);
    graphs.capture(scratch);
    for (Parameter* parameter : rank.parameters()) {
      for (const double value : read(parameter->grad)) {
        ASSERT_EQ(value, 0) << "warm-up and capture leave gradients alone";
      }
    }
    EXPECT_EQ(tape.live_frames(), 0);
    check_order(graphs);
    for (int repeat = 0; repeat < 2; ++repeat) {
      EXPECT_TRUE(run_captured(block, cx, graphs) == eager) << "pass " << repeat;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         BlockCapture,
                         ::testing::Values(CaptureCase{"reference"},
                                           CaptureCase{"reference", true},
                                           CaptureCase{"cpu"},
                                           CaptureCase{"cpu", true},
                                           CaptureCase{"cpu", false, 7},
                                           CaptureCase{"cpu", true, 8},
                                           CaptureCase{"reference", false, 0, 2},
                                           CaptureCase{"reference", true, 9, 2}),
                         [](const auto& info) {
                           const CaptureCase& c = info.param;
                           return fmt::format("{}{}{}{}",
                                              c.device,
                                              c.recompute ? "_recompute" : "",
                                              c.deferred_seed != 0 ? "_deferred" : "",
                                              c.ranks > 1 ? "_tp2" : "");
                         });

TEST(SlotMemory, RecomputeKeepsLess) {
  i64 bytes[2] = {};
  for (const bool recompute : {false, true}) {
    world().run(options({"cpu"}), [&](LocalRank& rank) {
      Tape tape;
      Context cx = rank.context();
      cx.tape = &tape;
      BlockRun block(rank, recompute);
      SlotGraphs graphs(cx, block.spec(), block.inputs(9), 1);
      Arena scratch(rank.device().pool(), graphs.scratch_bytes(), *cx.stream);
      graphs.capture(scratch);
      for (const AddressRange& range : graphs.forward_memory(0).kept) {
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

TEST(SlotMemory, ScratchInsideALiveSlotIsRejected) {
  world().run(options({"cpu"}), [](LocalRank& rank) {
    Tape tape;
    Context cx = rank.context();
    cx.tape = &tape;
    BlockRun block(rank, false);
    SlotGraphs first(cx, block.spec(), block.inputs(9), 2);
    SegmentSpec next = block.spec();
    next.name = "layers.1";
    SlotGraphs second(cx, next, block.inputs(9), 1);
    Arena scratch(rank.device().pool(), first.scratch_bytes(), *cx.stream);
    first.capture(scratch);
    // The second segment's scratch lies where the first keeps its first slot's values.
    Taken taken(first.forward_memory(0).kept.front());
    Arena inside(taken, second.scratch_bytes(), *cx.stream);
    second.capture(inside);
    LiveMemory live;
    live.replay(first.forward_memory(0));
    try {
      live.replay(second.forward_memory(0));
      FAIL() << "the overlap was not found";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("graph \"layers.1 slot 0 forward\" writes"));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("\"layers.0 slot 0 forward\" has"));
    }
  });
}

TEST(SlotMemory, AMicrobatchThatIsStillNeededIsNotOverwritten) {
  world().run(options({"cpu"}), [](LocalRank& rank) {
    Tape tape;
    Context cx = rank.context();
    cx.tape = &tape;
    BlockRun block(rank, false);
    SlotGraphs graphs(cx, block.spec(), block.inputs(9), 2);
    Arena scratch(rank.device().pool(), graphs.scratch_bytes(), *cx.stream);
    graphs.capture(scratch);
    LiveMemory live;
    live.replay(graphs.forward_memory(0));
    live.replay(graphs.forward_memory(1));
    EXPECT_THROW(live.replay(graphs.forward_memory(0)), Error);
  });
}

TEST(SlotMemory, DynamicPhasesAreRefused) {
  world().run(options({"reference"}), [](LocalRank& rank) {
    Tape tape;
    Context cx = rank.context();
    cx.tape = &tape;
    const Phase phase{.scope = "moe_dispatch", .shapes = Shapes::dynamic, .run = {}};
    const SegmentSpec spec{"layers.0", {&phase}, {}, {}};
    try {
      SlotGraphs graphs(cx, spec, rank.bundle(), 1);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(),
                   "\"layers.0\" cannot be captured: the shapes of its phase \"moe_dispatch\" "
                   "depend on data");
    }
  });
}

}  // namespace
}  // namespace tessera
