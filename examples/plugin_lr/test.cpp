// The rates of a run of ten updates, and that none is negative or above the peak in others.
#include <cmath>
#include <cstdio>
#include <exception>
#include <tessera/optimizer.hpp>
#include <tessera/testing/local_world.hpp>

int main(int argc, char** argv) try {
  using namespace tessera;
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const testing::LocalWorld world(folders);
  bool wrong = false;
  LrArguments ten{.steps = 10};
  const auto lr =
      world.make<LrSchedule>("wsd", ten, {{"peak", 4.0}, {"warmup_steps", 3}, {"decay", 0.3}});
  const double expected[] = {1, 2, 3, 4, 4, 4, 4, 3, 2, 1};
  for (i64 step = 1; step <= 10; ++step) {
    if (std::abs(lr->rate(step) - expected[step - 1]) < 1e-12) continue;
    std::fprintf(stderr, "update %d has the rate %g\n", static_cast<int>(step), lr->rate(step));
    wrong = true;
  }
  for (const i64 steps : {1, 2, 1000}) {
    LrArguments run{.steps = steps};
    const auto other =
        world.make<LrSchedule>("wsd", run, {{"peak", 1.0}, {"warmup_steps", 5}, {"decay", 1.0}});
    for (i64 step = 1; step <= steps; ++step) {
      const double rate = other->rate(step);
      wrong |= !(rate > 0 && rate <= 1);
    }
  }
  return wrong ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
