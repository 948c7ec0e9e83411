// The rates of two cycles of four updates, and that none is negative or above the peak in others.
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
  LrArguments eight{.steps = 8};
  const auto lr = world.make<LrSchedule>("sgdr", eight, {{"peak", 4.0}, {"cycles", 2}});
  const double root = std::sqrt(2.0);  // cos(pi / 4) is half of it
  const double expected[] = {4, 2 + root, 2, 2 - root, 4, 2 + root, 2, 2 - root};
  for (i64 step = 1; step <= 8; ++step) {
    if (std::abs(lr->rate(step) - expected[step - 1]) < 1e-12) continue;
    std::fprintf(stderr, "update %d has the rate %g\n", static_cast<int>(step), lr->rate(step));
    wrong = true;
  }
  for (const i64 steps : {1, 2, 1000}) {
    LrArguments run{.steps = steps};
    const auto other = world.make<LrSchedule>("sgdr", run, {{"peak", 1.0}, {"cycles", 3}});
    for (i64 step = 1; step <= steps; ++step) {
      const double rate = other->rate(step);
      wrong |= !(rate >= 0 && rate <= 1);
    }
  }
  return wrong ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
