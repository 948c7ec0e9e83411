// A short campaign of random faults; tests/README.md says how to run a long one.
#include <gmock/gmock.h>

#include "program_support.hpp"

namespace tessera::testing {
namespace faults_test {

using ::testing::HasSubstr;

TEST(Faults, RunsEndWithTheNumbersOfAnUndisturbedOne) {
  const ProcessResult result = run_process({"python3",
                                            TESSERA_SOURCE_DIR "/tests/e2e/faults.py",
                                            "--build",
                                            TESSERA_BUILD_DIR,
                                            "--rounds",
                                            "8",
                                            "--seed",
                                            "1"},
                                           {},
                                           std::chrono::minutes(12));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  for (const char* fault : {"kill_rank", "kill_launcher", "stop_rank", "full_disk", "flip_bit"}) {
    EXPECT_THAT(result.out, HasSubstr("\"" + std::string(fault) + "\""));
  }
  EXPECT_THAT(result.out, HasSubstr("8 of 8 rounds ended with the undisturbed run's metrics"));
}

}  // namespace faults_test
}  // namespace tessera::testing
