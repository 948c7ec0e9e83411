// Captures as much as can be: every run of phases of fixed shapes becomes a graph.
#include <tessera/graph.hpp>
#include <tessera/plugin.hpp>

namespace {

using namespace tessera;

class EachChunk final : public GraphPolicy {
 public:
  struct Config {
    i64 least = 1;
    static void describe(Schema<Config>& s) {
      s.field("least", &Config::least, "shorter runs of phases are launched one by one")
          .at_least(1);
    }
  };
  EachChunk(const Config& config, GraphArguments&) : config_(config) {}

  // Phases come in the order of chunks, and within a chunk in that of the forward pass.
  std::vector<CapturedRange> choose(std::span<const PhaseInfo> phases, const Plan&) const override {
    std::vector<CapturedRange> ranges;
    const PhaseInfo* last = nullptr;
    for (const PhaseInfo& phase : phases) {
      const bool fixed = phase.shapes == Shapes::fixed;
      const bool goes_on = last != nullptr && last->chunk == phase.chunk;
      if (fixed && !goes_on) ranges.push_back({phase.chunk, phase.phase, phase.phase});
      if (fixed) ranges.back().last_phase = phase.phase;
      last = fixed ? &phase : nullptr;
    }
    std::erase_if(ranges, [&](const CapturedRange& range) {
      return range.last_phase - range.first_phase + 1 < config_.least;
    });
    return ranges;
  }

 private:
  Config config_;
};

}  // namespace

TESSERA_PLUGIN(each_chunk, "0.1.0", "A graph policy") {
  registrar.add<GraphPolicy, EachChunk>("each_chunk", "one graph for each run of fixed phases");
}
