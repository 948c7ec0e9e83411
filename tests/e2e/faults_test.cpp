// Short campaigns of random faults; tests/README.md says how to run a long one.
#include <gmock/gmock.h>
#include <unistd.h>

#include "hosts_support.hpp"
#include "program_support.hpp"

namespace tessera::testing {
namespace faults_test {

using ::testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::chrono::minutes kMost{30};  // each start of a sanitized program takes seconds
#else
constexpr std::chrono::minutes kMost{12};
#endif

ProcessResult campaign(const std::vector<std::string>& faults, int rounds) {
  std::vector<std::string> command = {"python3",
                                      TESSERA_SOURCE_DIR "/tests/e2e/faults.py",
                                      "--build",
                                      TESSERA_BUILD_DIR,
                                      "--rounds",
                                      std::to_string(rounds),
                                      "--seed",
                                      "1",
                                      "--faults"};
  command.insert(command.end(), faults.begin(), faults.end());
  return run_process(command, {}, kMost);
}

// All rounds are right, and each fault is the first one of a round.
void expect_right(const ProcessResult& result, const std::vector<std::string>& faults, int rounds) {
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  for (const std::string& fault : faults) {
    EXPECT_THAT(result.out, HasSubstr("\"faults\": [\"" + fault + "\""));
  }
  const std::string count = std::to_string(rounds);
  EXPECT_THAT(
      result.out,
      HasSubstr(count + " of " + count + " rounds ended with the undisturbed run's metrics"));
}

TEST(Faults, RunsEndWithTheNumbersOfAnUndisturbedOne) {
  const std::vector<std::string> faults = {
      "kill_rank", "kill_launcher", "stop_rank", "full_disk", "flip_bit", "interrupt"};
  const int rounds = static_cast<int>(faults.size());
  expect_right(campaign(faults, rounds), faults, rounds);
}

TEST(Faults, ACutCableChangesNoNumber) {
  const ProcessResult result = campaign({"cut_link"}, 1);
  if (result.out.find("no cut_link: ") == std::string::npos) {
    return expect_right(result, {"cut_link"}, 1);
  }
  // The campaign needs root for its two hosts; other tests' hosts say whether root can make them.
  const TestFolder folder;
  std::string why;
  EXPECT_TRUE(geteuid() != 0 || TwoHosts::make(folder, why) == nullptr)
      << "two hosts can be made here, but: " << result.out;
  GTEST_SKIP() << result.out;
}

}  // namespace faults_test
}  // namespace tessera::testing
