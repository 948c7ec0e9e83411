// The kit's check over layouts of experts: which rows arrive where, their weights, the sums that
// come back, all gradients.
#include <cstdio>
#include <exception>
#include <tessera/testing/dispatcher_check.hpp>

int main(int argc, char** argv) try {
  using namespace tessera;
  using namespace tessera::testing;
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const LocalWorld world(folders);
  const Layout layouts[] = {{},
                            {.world = 2, .expert = 2},
                            {.world = 4, .expert = 2},
                            {.world = 2, .expert = 1, .expert_tensor = 2},
                            {.world = 4, .expert = 2, .expert_tensor = 2}};
  std::string wrong;
  for (const Layout& layout : layouts) {
    for (const bool padded : {false, true}) {
      wrong += dispatcher_check(world, {.type = "gather_all", .layout = layout, .padded = padded});
    }
  }
  // Streams run in any order that waits allow: that finds a wait that is missing.
  for (u64 seed = 1; seed <= 4; ++seed) {
    wrong += dispatcher_check(world,
                              {.type = "gather_all", .layout = layouts[4], .deferred_seed = seed});
  }
  std::fputs(wrong.c_str(), stderr);
  return wrong.empty() ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
