// What a run verifies of a schedule, over numbers of ranks and of microbatches: each pass once, in
// an order that cannot deadlock, with no more live activations than declared.
#include <cstdio>
#include <exception>
#include <tessera/testing/local_world.hpp>
#include <tessera/testing/schedule_check.hpp>

int main(int argc, char** argv) try {
  using namespace tessera;
  using namespace tessera::testing;
  const std::vector<std::filesystem::path> folders(argv + 1, argv + argc);  // of plugins
  const LocalWorld world(folders);
  std::string wrong;
  for (const int ranks : {1, 2, 4}) {
    for (const i64 ahead : {0, 1, 3}) {
      ScheduleArguments arguments{.pipeline = ranks};
      const auto schedule =
          world.make<PipelineSchedule>("patient_1f1b", arguments, {{"ahead", ahead}});
      wrong += schedule_check(*schedule, ranks, {1, 4, 8, 13});
    }
  }
  std::fputs(wrong.c_str(), stderr);
  return wrong.empty() ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
