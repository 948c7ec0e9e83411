// What is chosen of two chunks, of which one has a phase of dynamic shapes.
#include <cstdio>
#include <exception>
#include <tessera/graph.hpp>
#include <tessera/testing/local_world.hpp>

int main(int argc, char** argv) try {
  using namespace tessera;
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const testing::LocalWorld world(folders);
  std::vector<PhaseInfo> phases;
  for (int chunk = 0; chunk < 2; ++chunk) {
    for (int phase = 0; phase < 4; ++phase) {
      PhaseInfo info;
      info.chunk = chunk;
      info.phase = phase;
      if (chunk == 1 && phase == 1) info.shapes = Shapes::dynamic;
      phases.push_back(info);
    }
  }
  const auto chosen = [&](i64 least) {
    GraphArguments arguments;
    const auto policy = world.make<GraphPolicy>("each_chunk", arguments, {{"least", least}});
    std::string text;
    for (const CapturedRange& range : policy->choose(phases, Plan())) {
      text += fmt::format("{}:{}-{} ", range.chunk, range.first_phase, range.last_phase);
    }
    return text;
  };
  const std::string all = chosen(1), long_ones = chosen(2);
  if (all == "0:0-3 1:0-0 1:2-3 " && long_ones == "0:0-3 1:2-3 ") return 0;
  std::fprintf(stderr, "chosen: %s; of two or more phases: %s\n", all.c_str(), long_ones.c_str());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
