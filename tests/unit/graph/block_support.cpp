#include "block_support.hpp"

#include <iterator>

#include "kernel/train/execution/live_chunk.hpp"
#include "tessera/ops.hpp"
#include "tessera/testing/workbench.hpp"

namespace tessera::testing {

namespace {

constexpr i64 kSamples = 2, kPositions = 8, kHidden = 16;
constexpr i64 kRows = kSamples * kPositions;

}  // namespace

const LocalWorld& block_world() {
  static const LocalWorld kWorld({TESSERA_BUILD_DIR "/plugins"});
  return kWorld;
}

LocalWorldOptions block_options(const std::string& device, i64 ranks, u64 deferred_seed) {
  LocalWorldOptions options;
  options.layout.world = options.layout.tensor = ranks;
  options.device = device;
  options.batch = {kSamples, kPositions};
  options.deferred_seed = deferred_seed;
  options.values = {{"model.hidden", kHidden},
                    {"model.heads", 4},
                    {"model.layers", 1},
                    {"model.init_std", 0.2},
                    {"model.dropout", 0.1}};
  return options;
}

TwoBlocks::TwoBlocks(LocalRank& rank, bool recompute)
    : rank_(rank),
      hidden_(rank.slot("hidden")),
      row_ids_(rank.slot("row_ids")),
      layers_{rank.build<Layer>("layers.0", "transformer_block"),
              rank.build<Layer>("layers.1", "transformer_block")},
      empty_(rank.bundle()),
      cx_(rank.context()) {
  cx_.tape = &tape_;
  for (const auto& layer : layers_) {
    std::vector<Phase> phases = layer->phases();
    if (recompute) {
      phases_.push_back(recomputed(std::move(phases)));
    } else {
      std::ranges::move(phases, std::back_inserter(phases_));
    }
  }
}

// One phase that keeps its input only and runs the block's phases again for its backward.
Phase TwoBlocks::recomputed(std::vector<Phase> phases) const {
  auto inner = std::make_shared<std::vector<Phase>>(std::move(phases));
  Phase phase;
  phase.scope = "block";
  phase.run = [this, inner](Context& cx, Bundle& bundle) {
    const auto body = [this, inner, rows = bundle[row_ids_]](Context& c,
                                                             const std::vector<Tensor>& x) {
      Bundle again = empty_;
      again[hidden_] = x[0];
      again[row_ids_] = rows;
      for (const Phase& phase : *inner) phase.run(c, again);
      return std::vector<Tensor>{again[hidden_]};
    };
    bundle[hidden_] = ops::recompute(cx, {bundle[hidden_]}, body)[0];
  };
  return phase;
}

Tensor TwoBlocks::input(int microbatch) const {
  Workbench bench(rank_.device());
  return bench.random({kRows, kHidden}, DType::fp32, static_cast<u64>(microbatch));
}

Tensor TwoBlocks::gradient(int microbatch) const { return input(100 + microbatch); }

Bundle TwoBlocks::bundle(int microbatch) const {
  Bundle bundle = empty_;
  std::vector<double> rows;
  for (i64 row = 0; row < kRows; ++row) {
    const i64 sample = microbatch * kSamples + row / kPositions;
    rows.push_back(static_cast<double>(row_id(sample, row % kPositions)));
  }
  bundle[row_ids_] = rank_.tensor({kRows}, DType::i64, rows);
  return bundle;
}

std::unique_ptr<GraphSlots> TwoBlocks::slots(int first, int last, int count, bool split) {
  constexpr int kMicrobatch = 9;
  LiveChunk before(bundle(kMicrobatch), phases_);
  before.receive(hidden_, input(kMicrobatch));
  Tape tape;
  Context cx = cx_;
  cx.tape = &tape;
  for (int phase = 0; phase < first; ++phase) before.forward(cx, phase);
  const auto phases = std::span(phases_).subspan(static_cast<std::size_t>(first),
                                                 static_cast<std::size_t>(last - first + 1));
  const std::string name = fmt::format("phases {}-{}", first, last);
  return std::make_unique<GraphSlots>(
      cx_, CapturedPhases{name, phases, rank_.parameters(), split}, before.bundle(), count);
}

}  // namespace tessera::testing
