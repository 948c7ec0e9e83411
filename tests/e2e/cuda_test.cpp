// Trainings and commands on the device `cuda`, over the emulator (tests/cuda_emulated).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/metrics_lines.hpp"
#include "program_support.hpp"

namespace tessera {
namespace cuda_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::metric_in;
using testing::metrics_lines;
using testing::run_tessera;
using testing::TestFolder;

const std::string kShakespeare = TESSERA_SOURCE_DIR "/configs/shakespeare.toml";

std::vector<std::string> on_device(const std::string& device, std::vector<std::string> command) {
  for (const std::string& set : {std::string("plugins.path=[\"" TESSERA_BUILD_DIR "/tests/cuda\"]"),
                                 "device.type=" + device,
                                 std::string("data.path=" TESSERA_SOURCE_DIR "/LICENSE")}) {
    command.insert(command.end(), {"--set", set});
  }
  return command;
}

/// configs/shakespeare.toml with its dropout, made small: an emulated GPU is slow.
std::vector<std::string> training(const std::string& device,
                                  const std::string& out,
                                  const std::vector<std::string>& more = {}) {
  std::vector<std::string> command = on_device(device, {"train", kShakespeare});
  std::vector<std::string> sets = {"run.out=" + out,
                                   "run.steps=30",
                                   "batch.global=2",
                                   "batch.micro=2",
                                   "batch.sequence_length=32",
                                   "model.hidden=32",
                                   "model.layers=2",
                                   "lr.warmup_steps=4",
                                   "lr.peak=1e-3",
                                   "validation.every_steps=15",
                                   "validation.samples=4",
                                   "checkpoint.every_steps=15",
                                   "device.threads=1"};
  sets.insert(sets.end(), more.begin(), more.end());
  for (const std::string& set : sets) command.insert(command.end(), {"--set", set});
  return command;
}

/// Losses, norms and validation losses of a training, each with its name.
using Numbers = std::vector<std::pair<std::string, double>>;
Numbers numbers_of(const std::string& out) {
  Numbers found;
  for (const std::string& line : metrics_lines(out)) {
    for (const char* key : {"loss", "grad_norm", "val_loss"}) {
      if (const auto number = metric_in(line, key)) found.emplace_back(key, *number);
    }
  }
  return found;
}

Numbers trained(const std::string& device,
                const std::string& out,
                const std::vector<std::string>& more = {}) {
  const ProcessResult result = run_tessera(training(device, out, more));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  return numbers_of(out);
}

TEST(CudaTraining, IsThatOfTheReference) {
  const TestFolder folder;
  const Numbers found = trained("cuda_emulated", folder.path() / "cuda");
  const Numbers wanted = trained("reference", folder.path() / "reference");
  ASSERT_EQ(found.size(), 62U);  // 30 losses and norms, two validations
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].first, wanted[i].first);
    EXPECT_NEAR(found[i].second / wanted[i].second, 1, 1e-5) << found[i].first << ", number " << i;
  }
}

TEST(CudaTraining, HasTheSameBitsInEachRunAndAfterAResume) {
  const TestFolder folder;
  const Numbers once = trained("cuda_emulated", folder.path() / "once");
  const std::string again = folder.path() / "again";
  trained("cuda_emulated", again, {"run.steps=15", "lr.decay_steps=30"});
  EXPECT_EQ(trained("cuda_emulated", again, {"lr.decay_steps=30"}), once);
}

/// What a training says where the environment describes another machine.
ProcessResult trained_where(const std::map<std::string, std::string>& environment) {
  const TestFolder folder;
  ProcessOptions options;
  for (const auto& [name, value] : environment) options.environment[name] = value;
  return run_tessera(training("cuda_emulated", folder.path() / "run"), options);
}

TEST(CudaTraining, IsPlannedAndCheckedWithoutAGpu) {
  ProcessOptions no_gpu;
  no_gpu.environment["TESSERA_EMULATED_GPUS"] = "0";
  const ProcessResult check =
      run_tessera(on_device("cuda_emulated", {"config", "check", kShakespeare}), no_gpu);
  EXPECT_EQ(check.exit_code, 0) << check.err;
  const ProcessResult plan =
      run_tessera(on_device("cuda_emulated", {"plan", kShakespeare, "--world", "1"}), no_gpu);
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
}

TEST(CudaTraining, NeedsADriverAndAGpu) {
  const std::string way_out = "choose another device (device.type = \"cpu\")";
  const ProcessResult no_gpu = trained_where({{"TESSERA_EMULATED_GPUS", "0"}});
  EXPECT_EQ(no_gpu.exit_code, 2);
  EXPECT_THAT(
      no_gpu.err,
      HasSubstr("device \"cuda_emulated\": no GPU is visible here (cudaErrorNoDevice); look "
                "at nvidia-smi and CUDA_VISIBLE_DEVICES, or " +
                way_out));
  const ProcessResult old = trained_where({{"TESSERA_EMULATED_DRIVER", "12040"}});
  EXPECT_EQ(old.exit_code, 2);
  EXPECT_THAT(old.err,
              HasSubstr("device \"cuda_emulated\": the driver is for CUDA 12.4, older than the "
                        "runtime 13.0: update the driver, or build with an older toolkit"));
  const ProcessResult none = trained_where({{"TESSERA_EMULATED_DRIVER", "0"}});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(
      none.err,
      HasSubstr("device \"cuda_emulated\": there is no NVIDIA driver here; install it, or " +
                way_out));
}

TEST(CudaTraining, TellsWhoHoldsTheMemoryWhereThereIsNoMore) {
  const ProcessResult result =
      trained_where({{"TESSERA_EMULATED_MEMORY", std::to_string(32 << 20)}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("out of memory: "), HasSubstr("of the GPU's 33554432 bytes")));
}

TEST(CudaTraining, NamesAnOperationThatTheDeviceLacks) {
  const ProcessResult check = run_tessera(on_device(
      "cuda_emulated", {"config", "check", TESSERA_SOURCE_DIR "/configs/moe_mixtral_tiny.toml"}));
  EXPECT_EQ(check.exit_code, 2);
  EXPECT_THAT(check.err, HasSubstr("the device \"cuda_emulated\" has no operation"));
}

}  // namespace cuda_test
}  // namespace tessera
