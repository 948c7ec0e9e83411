// Trainings and commands on the device `cuda`, over the emulator (tests/cuda_emulated).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
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
const std::string kExperts = TESSERA_SOURCE_DIR "/configs/moe_mixtral_tiny.toml";

std::vector<std::string> on_device(const std::string& device, std::vector<std::string> command) {
  for (const std::string& set : {std::string("plugins.path=[\"" TESSERA_BUILD_DIR "/tests/cuda\"]"),
                                 "device.type=" + device,
                                 std::string("data.path=" TESSERA_SOURCE_DIR "/LICENSE")}) {
    command.insert(command.end(), {"--set", set});
  }
  return command;
}

/// A training made small: an emulated GPU is slow.
std::vector<std::string> training(const std::string& device,
                                  const std::string& out,
                                  const std::vector<std::string>& more = {},
                                  const std::string& config = kShakespeare) {
  std::vector<std::string> command = on_device(device, {"train", config});
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
                const std::vector<std::string>& more = {},
                const std::string& config = kShakespeare) {
  const ProcessResult result = run_tessera(training(device, out, more, config));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  return numbers_of(out);
}

/// `size`: of 30 losses and norms, and two validations.
void expect_near(const Numbers& found, const Numbers& wanted, std::size_t size = 62) {
  ASSERT_EQ(found.size(), size);
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].first, wanted[i].first);
    EXPECT_NEAR(found[i].second / wanted[i].second, 1, 1e-5) << found[i].first << ", number " << i;
  }
}

TEST(CudaTraining, IsThatOfTheReference) {
  const TestFolder folder;
  expect_near(trained("cuda_emulated", folder.path() / "cuda"),
              trained("reference", folder.path() / "reference"));
}

TEST(CudaTraining, OfExpertsIsThatOfTheReference) {
  const TestFolder folder;
  const std::vector<std::string> small = {"model.block.mlp.experts=4", "model.block.mlp.ffn=48"};
  expect_near(trained("cuda_emulated", folder.path() / "cuda", small, kExperts),
              trained("reference", folder.path() / "reference", small, kExperts));
}

TEST(CudaTraining, OfExpertsHasTheSameBitsInEachOrderOfThreads) {
  const TestFolder folder;
  std::vector<Numbers> found;
  for (const char* seed : {"1", "2"}) {
    ProcessOptions options;
    options.environment["TESSERA_EMULATED_SEED"] = seed;
    const std::string out = folder.path() / seed;
    const ProcessResult result =
        run_tessera(training("cuda_emulated",
                             out,
                             {"run.steps=4", "model.block.mlp.experts=4", "model.block.mlp.ffn=48"},
                             kExperts),
                    options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    found.push_back(numbers_of(out));
  }
  EXPECT_GE(found[0].size(), 8U);
  EXPECT_EQ(found[0], found[1]);
}

TEST(CudaTraining, ByRulesOfPluginsIsThatOfTheReference) {
  const TestFolder folder;
  for (const std::string rule : {"lion", "muon"}) {
    const std::vector<std::string> few = {
        "run.steps=6", "lr.peak=3e-4", "optimizer.rule.type=" + rule};
    const Numbers found = trained("cuda_emulated", folder.path() / (rule + "_cuda"), few);
    expect_near(found, trained("reference", folder.path() / (rule + "_reference"), few), 13);
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

TEST(CudaTraining, ReplaysOfGraphsHaveTheBitsOfEagerSteps) {
  const TestFolder folder;
  const std::vector<std::string> few = {"run.steps=6", "validation.every_steps=3"};
  const auto with = [&](std::string graph) {
    std::vector<std::string> more = few;
    more.push_back("graph.type=" + graph);
    if (graph == "partial") more.emplace_back("check.graphs_every=1");
    return trained("cuda_emulated", folder.path() / graph, more);
  };
  const Numbers eager = with("none");
  EXPECT_EQ(eager.size(), 14U);
  EXPECT_EQ(with("partial"), eager);
  EXPECT_EQ(with("full_iteration"), eager);
}

TEST(CudaTraining, InBf16IsThatOfTheReference) {
  const TestFolder folder;
  const std::vector<std::string> bf16 = {"run.steps=10", "precision.compute=bf16"};
  const Numbers found = trained("cuda_emulated", folder.path() / "cuda", bf16);
  const Numbers wanted = trained("reference", folder.path() / "reference", bf16);
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double tolerance = found[i].first == "grad_norm" ? 2e-3 : 1e-4;  // roundings differ
    EXPECT_NEAR(found[i].second / wanted[i].second, 1, tolerance) << found[i].first << " " << i;
  }
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

// A rule without a kernel for it: all other operations of such a training are there.
TEST(CudaTraining, NamesAnOperationThatTheDeviceLacks) {
  const TestFolder folder;
  const std::string file =
      folder.write("run.toml",
                   "schema = 1\n[run]\nsteps = 2\n[plugins]\npath = [\"" TESSERA_BUILD_DIR
                   "/tests/cuda\", \"" TESSERA_BUILD_DIR
                   "/tests/plugins/rule_without_kernel\"]\n"
                   "[batch]\nglobal = 2\nmicro = 1\nsequence_length = 8\n"
                   "[model]\ntype = \"gpt\"\nlayers = 1\nhidden = 16\nheads = 2\n"
                   "[device]\ntype = \"cuda_emulated\"\n"
                   "[optimizer.rule]\ntype = \"test_halve\"\n[lr]\npeak = 1e-3\n"
                   "[data]\ntype = \"text\"\npath = \"" TESSERA_SOURCE_DIR "/LICENSE\"\n");
  const ProcessResult check = run_tessera({"config", "check", file});
  EXPECT_EQ(check.exit_code, 2);
  EXPECT_THAT(check.err, HasSubstr("the device \"cuda_emulated\" has no operation \"test.halve\""));
  const ProcessResult other =
      run_tessera({"config", "check", file, "--set", "optimizer.rule.type=adamw"});
  EXPECT_EQ(other.exit_code, 0) << other.err;
}

// A project of its own, as an author has it: compiled by nvcc, loaded without a GPU.
TEST(CudaSources, OfAnotherProjectAreBuiltAndLoaded) {
  if (!std::filesystem::exists(TESSERA_BUILD_DIR "/plugins/libtessera_cuda.so")) {
    GTEST_SKIP() << "this build has no nvcc (TESSERA_CUDA)";
  }
  const TestFolder folder;
  folder.write("CMakeLists.txt",
               "cmake_minimum_required(VERSION 3.25)\nproject(mine LANGUAGES CXX)\n"
               "find_package(Tessera REQUIRED)\n"
               "tessera_add_plugin(mine SOURCES mine.cpp CUDA_SOURCES mine.cu)\n");
  folder.write("mine.cpp", R"(
#include <tessera/operation.hpp>
#include <tessera/plugin.hpp>
#ifdef TESSERA_HAVE_CUDA
tessera::Kernel mine_kernel();
#endif
TESSERA_PLUGIN(mine, "0.1.0", "A kernel of mine") {
#ifdef TESSERA_HAVE_CUDA
  registrar.add_kernel("cuda", mine_kernel());
#endif
}
)");
  folder.write("mine.cu", R"(
#include <tessera/operation.hpp>
#include <tessera/ops/elementwise.hpp>
__global__ void twice(const float* x, float* out, long n) {
  const long i = blockIdx.x * 256L + threadIdx.x;
  if (i < n) out[i] = 2 * x[i];
}
tessera::Kernel mine_kernel() {
  tessera::Kernel kernel = tessera::make_kernel<tessera::ScaleArgs>(
      [](const tessera::ScaleArgs&) { return tessera::LaunchRequirements(); },
      [](const tessera::ScaleArgs& args, void*, tessera::Stream& stream) {
        const long n = args.out.elements();
        twice<<<(n + 255) / 256, 256, 0, static_cast<cudaStream_t>(stream.native())>>>(
            args.x.as<float>(), args.out.as<float>(), n);
      });
  kernel.operation = "mine.twice";
  return kernel;
}
)");
  ProcessOptions options;
  options.folder = folder.path();
  options.environment = testing::compiler_variables();
  options.environment["CUDACXX"] = testing::cached("TESSERA_CUDA_COMPILER");
  const auto run = [&](std::vector<std::string> command) {
    const ProcessResult result = run_process(std::move(command), options);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return result.out;
  };
  const std::string prefix = folder.path() / "prefix";
  run({"cmake", "--install", TESSERA_BUILD_DIR, "--prefix", prefix});
  run({"cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_PREFIX_PATH=" + prefix});
  run({"cmake", "--build", "build"});
  EXPECT_THAT(
      run({prefix + "/bin/tessera", "plugins", "check", "build/plugins/libtessera_mine.so"}),
      HasSubstr("kernel mine.twice on cuda"));
}

}  // namespace cuda_test
}  // namespace tessera
