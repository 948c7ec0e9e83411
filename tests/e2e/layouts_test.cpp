// The shipped configuration in every shipped layout, as real processes: the same losses. And
// started by hand as torchrun would, and by mpirun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/metrics_lines.hpp"
#include "program_support.hpp"

namespace tessera {
namespace layouts_test {

using testing::metric_in;
using testing::metrics_lines;
using testing::tessera_program;
using testing::TestFolder;

const std::string kConfigs = TESSERA_SOURCE_DIR "/configs/";
constexpr int kSteps = 8;

// A few steps of configs/shakespeare.toml with dropout, made small.
std::vector<std::string> small_training(const std::string& layout, const std::string& out) {
  std::vector<std::string> command = {tessera_program(),
                                      "train",
                                      kConfigs + "shakespeare.toml",
                                      kConfigs + "parallel/" + layout + ".toml"};
  for (const char* set : {"data.path=" TESSERA_SOURCE_DIR "/LICENSE",
                          "run.steps=8",
                          "lr.warmup_steps=4",
                          "lr.peak=1e-3",
                          "batch.global=8",
                          "batch.micro=2",
                          "model.layers=4",
                          "model.hidden=48",
                          "model.heads=4",
                          "batch.sequence_length=32",
                          "model.dropout=0.1",
                          "validation.every_steps=8",
                          "validation.samples=4",
                          "checkpoint.every_steps=0",
                          "check.replicas_every=2",
                          "device.threads=1"}) {
    command.insert(command.end(), {"--set", set});
  }
  command.insert(command.end(), {"--set", "run.out=" + out});
  return command;
}

// Loss and gradient norm of each step, and the validation loss at the end.
std::vector<double> numbers_of(const std::string& out) {
  std::vector<double> found;
  for (const std::string& line : metrics_lines(out)) {
    for (const char* key : {"loss", "grad_norm", "val_loss"}) {
      if (const auto number = metric_in(line, key)) found.push_back(*number);
    }
  }
  return found;
}

void expect_equal(const std::vector<double>& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i] / wanted[i], 1, i % 2 == 0 ? 2e-6 : 1e-5) << "number " << i;
  }
}

class Layouts : public ::testing::Test {
 protected:
  std::string out(const std::string& name) const { return (folder_.path() / name).string(); }

  // Losses and norms in one process: what all layouts are compared with.
  std::vector<double> alone() const {
    const ProcessResult result = run_process(small_training("single", out("alone")));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<double> numbers = numbers_of(out("alone"));
    EXPECT_EQ(numbers.size(), 2U * kSteps + 1);
    return numbers;
  }

  TestFolder folder_;
};

TEST_F(Layouts, TrainTheSame) {
  const std::vector<double> wanted = alone();
  ASSERT_GT(wanted.front(), wanted[2 * (kSteps - 1)]) << "nothing was learnt";
  int trained = 0;
  for (const auto& overlay : std::filesystem::directory_iterator(kConfigs + "parallel")) {
    const std::string layout = overlay.path().stem().string();
    if (layout == "single") continue;
    SCOPED_TRACE(layout);
    ++trained;
    const ProcessResult result = run_process(small_training(layout, out(layout)));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    expect_equal(numbers_of(out(layout)), wanted);
  }
  EXPECT_GE(trained, 9);
}

// An overlay sets its own axis and leaves the others alone.
TEST_F(Layouts, OverlaysAddUp) {
  std::vector<std::string> command = small_training("tp2", out("both"));
  command.insert(command.begin() + 4, kConfigs + "parallel/pp2.toml");
  const ProcessResult result = run_process(command);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::HasSubstr("tensor 2 × pipeline 2, 4 ranks over shm\n"));
  expect_equal(numbers_of(out("both")), alone());
}

// Buckets of gradients that are sent in bf16 hold parameters that tensor ranks cut, and others.
TEST_F(Layouts, SendGradientsInBf16BesideTensorParallelism) {
  for (const std::string optimizer : {"replicated", "distributed"}) {
    std::vector<std::string> command = small_training("tp2_dp2", out(optimizer));
    command.insert(
        command.end(),
        {"--set", "parallel.gradient_dtype=bf16", "--set", "optimizer.type=" + optimizer});
    const ProcessResult result = run_process(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(numbers_of(out("replicated")), numbers_of(out("distributed")));
}

TEST_F(Layouts, TrainTheSameUnderVariablesOfTorchrun) {
  std::vector<std::unique_ptr<Process>> ranks;
  for (const char* rank : {"0", "1"}) {
    ProcessOptions options;
    options.environment = {{"RANK", rank},
                           {"WORLD_SIZE", "2"},
                           {"LOCAL_RANK", rank},
                           {"LOCAL_WORLD_SIZE", "2"},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", "29511"},
                           {"TORCHELASTIC_RUN_ID", "layouts-" + std::to_string(getpid())}};
    std::vector<std::string> command = small_training("tp2", out("torchrun"));
    command.insert(command.end(), {"--set", "data.tokenizer.type=byte"});  // an old name
    ranks.push_back(std::make_unique<Process>(command, options));
  }
  for (const auto& rank : ranks) {
    const ProcessResult result = rank->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const bool told = result.err.find("data.tokenizer") != std::string::npos;
    EXPECT_EQ(told, rank == ranks.front()) << "one rank tells of it: " << result.err;
  }
  expect_equal(numbers_of(out("torchrun")), alone());
}

TEST_F(Layouts, TrainTheSameUnderMpirun) {
  if (run_process({"sh", "-c", "mpirun --version | grep -q 'Open MPI'"}).exit_code != 0) {
    GTEST_SKIP() << "Open MPI's mpirun is not installed";
  }
  std::vector<std::string> command = small_training("dp2", out("mpirun"));
  const std::vector<std::string> mpirun = {
      "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"};
  command.insert(command.begin(), mpirun.begin(), mpirun.end());
  const ProcessResult result = run_process(command);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_equal(numbers_of(out("mpirun")), alone());
}

TEST(LayoutOverlays, HoldTheLayoutOnly) {
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs + "parallel")) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("[")) {
        EXPECT_TRUE(line == "[parallel]" || line == "[schedule]") << entry.path() << ": " << line;
      }
    }
  }
}

}  // namespace layouts_test
}  // namespace tessera
