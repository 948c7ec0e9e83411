// The shipped configuration in every shipped layout, as real processes: the same losses. And
// started by hand as torchrun would, and by mpirun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/metrics_lines.hpp"
#include "program_support.hpp"

namespace tessera {
namespace layouts_test {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::metric_in;
using testing::metrics_lines;
using ::testing::Pair;
using testing::tessera_program;
using testing::TestFolder;

const std::string kConfigs = TESSERA_SOURCE_DIR "/configs/";
constexpr int kSteps = 8;

// Runs a few steps of configs/shakespeare.toml with dropout, made small.
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

// "parallel.tensor" to "2", both as they are written.
using Keys = std::map<std::string, std::string>;

// What an overlay writes.
Keys keys_of(const std::filesystem::path& overlay) {
  Keys keys;
  std::string table;
  std::ifstream file(overlay);
  for (std::string line; std::getline(file, line);) {
    line.erase(std::min(line.find('#'), line.size()));
    line.erase(line.find_last_not_of(' ') + 1);
    if (line.empty()) continue;
    const std::size_t equals = line.find(" = ");
    if (line.front() == '[') {
      table = line.substr(1, line.size() - 2);
    } else if (equals == std::string::npos) {
      ADD_FAILURE() << overlay << " has a line that is not `key = value`: " << line;
    } else {
      keys[table + "." + line.substr(0, equals)] = line.substr(equals + 3);
    }
  }
  return keys;
}

// Axes by the letters that they have in the name of a layout.
const std::map<std::string, std::string> kAxes = {
    {"tp", "tensor"}, {"cp", "context"}, {"pp", "pipeline"}, {"dp", "data"}, {"ep", "expert"}};

// What the name of a layout says: "pp2_tp2_sp" is two axes and sequence parallelism, and a word
// that is neither is a schedule.
Keys keys_in_name(const std::string& layout) {
  Keys keys;
  std::istringstream words(layout);
  for (std::string word; std::getline(words, word, '_');) {
    const std::size_t size = std::min(word.find_first_of("0123456789"), word.size());
    const auto axis = kAxes.find(word.substr(0, size));
    if (axis != kAxes.end()) {
      keys["parallel." + axis->second] = word.substr(size);
    } else if (word == "sp") {
      keys["parallel.sequence_parallel"] = "true";
    } else {
      keys["schedule.type"] = "\"" + word + "\"";
    }
  }
  return keys;
}

// The line that a run in this layout begins with.
std::string line_of(const std::string& layout) {
  const Keys keys = keys_in_name(layout);
  std::string axes;
  int ranks = 1;
  for (const std::string axis : {"tensor", "context", "pipeline", "data"}) {
    const auto size = keys.find("parallel." + axis);
    if (size == keys.end()) continue;
    ranks *= std::stoi(size->second);
    axes += (axes.empty() ? "" : " × ") + axis + " " + size->second;
    if (axis == "tensor" && keys.contains("parallel.sequence_parallel")) axes += " with sequence";
  }
  return "  layout      " + axes + ", " + std::to_string(ranks) + " ranks over shm\n";
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
    EXPECT_THAT(result.out, HasSubstr(line_of(layout)));
    expect_equal(numbers_of(out(layout)), wanted);
  }
  EXPECT_GE(trained, 9);
}

// An overlay sets its own axis and leaves the others alone.
TEST_F(Layouts, OverlaysAddUp) {
  const std::vector<double> wanted = alone();
  for (const auto& [first, second, layout] :
       {std::array<std::string, 3>{"tp2", "pp2", "tensor 2 × pipeline 2"},
        {"dp2", "cp2", "context 2 × data 2"}}) {
    SCOPED_TRACE(layout);
    std::vector<std::string> command = small_training(first, out(first));
    command.insert(command.begin() + 4, kConfigs + "parallel/" + second + ".toml");
    const ProcessResult result = run_process(command);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("  layout      " + layout + ", 4 ranks over shm\n"));
    expect_equal(numbers_of(out(first)), wanted);
  }
}

// The line says over how many ranks the experts are, and how many ranks cut each expert where these
// are not the ranks that cut the layers.
TEST_F(Layouts, OfExpertsAreNamed) {
  const std::pair<std::vector<std::string>, std::string> kLayouts[] = {
      {{"context=2"}, "context 2, 2 ranks"},
      {{"context=2", "expert=2"}, "context 2, experts over 2, 2 ranks"},
      {{"tensor=2", "expert=2", "expert_tensor=1"}, "tensor 2, experts over 2, 2 ranks"},
      {{"tensor=2", "expert_tensor=2"}, "tensor 2, 2 ranks"},
      {{"data=4", "expert=2", "expert_tensor=2"},
       "data 4, experts over 2, each expert over 2, 4 ranks"}};
  int count = 0;
  for (const auto& [sets, line] : kLayouts) {
    SCOPED_TRACE(line);
    std::vector<std::string> command = {
        tessera_program(), "train", kConfigs + "moe_mixtral_tiny.toml"};
    for (const std::string& set : sets) command.insert(command.end(), {"--set", "parallel." + set});
    for (const char* set : {"data.path=" TESSERA_SOURCE_DIR "/LICENSE",
                            "run.steps=1",
                            "lr.warmup_steps=0",
                            "batch.global=4",
                            "batch.micro=1",
                            "batch.sequence_length=16",
                            "model.layers=1",
                            "model.hidden=24",
                            "model.block.mlp.ffn=32",
                            "validation.every_steps=0",
                            "checkpoint.save=false",
                            "device.threads=1"}) {
      command.insert(command.end(), {"--set", set});
    }
    command.insert(command.end(), {"--set", "run.out=" + out(std::to_string(++count))});
    EXPECT_THAT(run_process(command), Prints(0, "  layout      " + line + " over shm\n"));
  }
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
    command.insert(command.end(), {"--set", "checkpoint.save=false"});  // of which a run warns
    ranks.push_back(std::make_unique<Process>(command, options));
  }
  for (const auto& rank : ranks) {
    const ProcessResult result = rank->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const bool told = result.err.find("checkpoint.save = false") != std::string::npos;
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

// An overlay writes what its name says and nothing else, so that two of them add up. One of a
// pipeline may choose the schedule too.
TEST(LayoutOverlays, HoldTheLayoutOnly) {
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs + "parallel")) {
    const std::string layout = entry.path().stem().string();
    if (layout == "single") continue;
    SCOPED_TRACE(layout);
    const Keys found = keys_of(entry.path()), named = keys_in_name(layout);
    for (const auto& [key, value] : named) EXPECT_THAT(found, Contains(Pair(key, value)));
    for (const auto& [key, value] : found) {
      const bool schedule = key.starts_with("schedule.") && named.contains("parallel.pipeline");
      EXPECT_TRUE(named.contains(key) || schedule) << key << " is for another overlay to set";
    }
  }
}

TEST(LayoutOverlays, OfOneProcessHoldsAllAxes) {
  const Keys found = keys_of(kConfigs + "parallel/single.toml");
  for (const auto& [letters, axis] : kAxes) {
    EXPECT_THAT(found, Contains(Pair("parallel." + axis, "1")));
  }
  for (const auto& [key, value] : found) {
    EXPECT_TRUE(key.starts_with("parallel.")) << key;
    EXPECT_TRUE(value == "1" || value == "\"auto\"") << key << " = " << value;
  }
}

TEST(OtherOverlays, HoldOneTableOnly) {
  for (const auto& [folder, table] :
       {std::array<std::string, 2>{"precision", "precision."}, {"graphs", "graph."}}) {
    int overlays = 0;
    for (const auto& entry : std::filesystem::directory_iterator(kConfigs + folder)) {
      ++overlays;
      for (const auto& [key, value] : keys_of(entry.path())) {
        EXPECT_TRUE(key.starts_with(table)) << entry.path() << ": " << key;
      }
    }
    EXPECT_GE(overlays, 2);
  }
}

}  // namespace layouts_test
}  // namespace tessera
