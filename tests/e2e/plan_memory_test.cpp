// The memory that `tessera plan` says ranks hold, against that of real ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tessera/types.hpp"
#include "train_support.hpp"

namespace tessera {
namespace plan_memory_test {

using testing::run_tessera;
using testing::TinyRun;

// A number that the system gives in KiB, in bytes; 0 for a process that has ended.
i64 bytes_of(pid_t pid, const std::string& file, const std::string& key) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/" + file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) << 10;
  }
  return 0;
}

// Proportional set size: pages that processes share count once in the sum.
i64 pss_of(pid_t pid) { return bytes_of(pid, "smaps_rollup", "Pss"); }

// Large enough for the program itself, some 20 MiB a process, to be two or three percent.
std::vector<std::string> sets_for(const std::string& communicator, std::vector<std::string> more) {
  std::vector<std::string> sets = TinyRun::steps(100000,
                                                 "run",
                                                 {"comm.type=" + communicator,
                                                  "batch.global=2",
                                                  "batch.micro=1",
                                                  "batch.sequence_length=64",
                                                  "model.layers=6",
                                                  "model.hidden=768",
                                                  "model.vocab_multiple=32",
                                                  "checkpoint.every_steps=0",
                                                  "optimizer.rule.type=adamw"});
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

double planned(const TinyRun& run, const std::vector<std::string>& sets) {
  std::vector<std::string> command = {"plan", run.at("tiny.toml"), "--json"};
  for (const std::string& set : sets) command.insert(command.end(), {"--set", set});
  const ProcessResult result = run_tessera(command, run.options());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json plan = nlohmann::json::parse(result.out);
  double sum = 0;
  for (const auto& rank : plan["ranks"]) {
    sum += rank["ranks"].get<double>() * rank["peak_memory"]["held"].get<double>();
  }
  return sum;
}

double measured(const TinyRun& run, const std::vector<std::string>& sets) {
  Process process(run.command(sets), run.options());
  EXPECT_TRUE(process.shows("  loss ", 4)) << process.out() << process.err();
  double sum = 0;
  for (const pid_t pid : processes_with(run.mark())) sum += static_cast<double>(pss_of(pid));
  return sum;
}

class PlannedMemory : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(PlannedMemory, IsWhatTheRanksHold) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers hold as much memory again";
#endif
  for (const std::string communicator : {"shm", "gloo"}) {
    SCOPED_TRACE(communicator);
    const TinyRun run;
    const std::vector<std::string> sets = sets_for(communicator, GetParam());
    const double expected = planned(run, sets), actual = measured(run, sets);
    EXPECT_NEAR(expected / actual, 1, 0.05)
        << expected / (1 << 20) << " MiB planned, " << actual / (1 << 20) << " MiB held";
    EXPECT_TRUE(run.survivors().empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    PlannedMemory,
    ::testing::Values(std::vector<std::string>{"parallel.data=2"},
                      std::vector<std::string>{"parallel.data=2", "graph.type=full_iteration"},
                      std::vector<std::string>{
                          "parallel.tensor=2", "model.hidden=1008", "batch.micro=2"}));

// What is loaded is not held twice: a run that fits goes on where it fits.
TEST(ResumedMemory, IsThatOfTheRunFromItsBeginning) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep what is freed";
#endif
  const TinyRun run;
  const std::vector<std::string> sets = sets_for("auto", {"device.threads=1"});
  double most[2];
  for (double& peak : most) {
    Process process(run.command(sets), run.options());
    ASSERT_TRUE(process.shows("  loss ", 4)) << process.out() << process.err();
    peak = static_cast<double>(bytes_of(process.pid(), "status", "VmHWM"));
    process.send(SIGTERM);
    EXPECT_EQ(process.wait().exit_code, 3);
  }
  EXPECT_NEAR(most[1] / most[0], 1, 0.05)
      << most[0] / (1 << 20) << " MiB, resumed " << most[1] / (1 << 20);
}

}  // namespace plan_memory_test
}  // namespace tessera
