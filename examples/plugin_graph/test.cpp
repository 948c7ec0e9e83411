// Which phases it captures, and what it refuses. That replays have the bits of the phases as they
// run is checked by a run: check.graphs_every in the training beside this file.
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <tessera/error.hpp>
#include <tessera/graph.hpp>
#include <tessera/testing/local_world.hpp>

namespace {

using namespace tessera;

// Layers of three phases; the shapes of the middle one depend on data, where `dynamic`.
std::vector<PhaseInfo> phases_of(int layers, bool dynamic) {
  std::vector<PhaseInfo> phases;
  for (int layer = 0; layer < layers; ++layer) {
    for (const char* scope : {"attn", "moe_experts", "moe_unpermute"}) {
      PhaseInfo info;
      info.layer = layer;
      info.phase = static_cast<int>(phases.size());
      info.scope = scope;
      const bool middle = phases.size() % 3 == 1;
      info.shapes = dynamic && middle ? Shapes::dynamic : Shapes::fixed;
      phases.push_back(info);
    }
  }
  return phases;
}

std::string text(const std::vector<CapturedRange>& ranges) {
  std::string out;
  for (const CapturedRange& of : ranges) {
    out += std::to_string(of.first_phase) + "-" + std::to_string(of.last_phase) + " ";
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const testing::LocalWorld world(folders);
  GraphArguments arguments;
  arguments.reject = [](std::string_view key, const std::string& why) {
    throw ConfigError(std::string(key) + ": " + why);
  };
  const auto policy = [&](i64 n) {
    return world.make<GraphPolicy>("every_nth", arguments, {{"n", n}});
  };
  std::string wrong;
  const auto expect = [&](const std::string& got, const std::string& wanted) {
    if (got != wanted) wrong += "\"" + got + "\" instead of \"" + wanted + "\"\n";
  };
  const auto fixed = phases_of(4, false), mixed = phases_of(2, true);
  expect(text(policy(1)->choose(fixed, {})), "0-2 3-5 6-8 9-11 ");
  expect(text(policy(2)->choose(fixed, {})), "0-2 6-8 ");
  expect(text(policy(1)->choose(mixed, {})), "0-0 2-2 3-3 5-5 ");
  policy(2)->check(fixed);
  try {
    policy(7)->check(std::span(fixed).subspan(3));
    wrong += "a policy that captures nothing is not refused\n";
  } catch (const ConfigError& refused) {
    const std::string why = "n: no phase of a block is captured with 7";
    if (std::string(refused.what()).find(why) == std::string::npos) wrong += refused.what();
  }
  std::fputs(wrong.c_str(), stderr);
  return wrong.empty() ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
