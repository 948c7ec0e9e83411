// Graphs of some layers only: what is captured is replayed with few launches and takes memory of
// its own, so a share of the layers is a middle way.
#include <fmt/format.h>
#include <tessera/graph.hpp>
#include <tessera/plugin.hpp>

#include <algorithm>

namespace {

using namespace tessera;

class EveryNth final : public GraphPolicy {
 public:
  struct Config {
    i64 n = 2;
    static void describe(Schema<Config>& s) {
      s.field("n", &Config::n, "one layer of so many is captured").at_least(1).at_most(kMostLayers);
    }
  };
  EveryNth(const Config& config, GraphArguments& arguments) : n_(config.n), arguments_(arguments) {}

  void do_check(std::span<const PhaseInfo> blocks) const override {
    const auto taken = [&](const PhaseInfo& phase) { return takes(phase); };
    if (std::ranges::any_of(blocks, taken)) return;
    arguments_.reject("n", fmt::format("no phase of a block is captured with {}", n_));
  }

  std::vector<CapturedRange> do_choose(std::span<const PhaseInfo> phases,
                                       const Plan&) const override {
    std::vector<CapturedRange> ranges;
    const PhaseInfo* before = nullptr;  // the phase before, where it is captured too
    for (const PhaseInfo& phase : phases) {
      const bool taken = takes(phase);
      if (taken && before != nullptr && before->layer == phase.layer) {
        ranges.back().last_phase = phase.phase;
      } else if (taken) {
        ranges.push_back({phase.chunk, phase.phase, phase.phase});
      }
      before = taken ? &phase : nullptr;
    }
    return ranges;
  }

 private:
  // A phase whose shapes depend on data cannot be captured; one of no layer only passes on.
  bool takes(const PhaseInfo& phase) const {
    return phase.shapes == Shapes::fixed && phase.layer >= 0 && phase.layer % n_ == 0;
  }

  i64 n_;
  GraphArguments arguments_;
};

}  // namespace

TESSERA_PLUGIN(every_nth, "0.1.0", "Graphs of some layers") {
  registrar.add<GraphPolicy, EveryNth>("every_nth", "captures one layer of n");
}
