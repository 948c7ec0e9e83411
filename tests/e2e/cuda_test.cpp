// Trainings and commands on the device `cuda`, over the emulator (tests/cuda_emulated).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/metrics_lines.hpp"
#include "cuda_support.hpp"

namespace tessera {
namespace cuda_test {

using ::testing::HasSubstr;
using testing::kShakespeare;
using testing::metric_in;
using testing::metrics_lines;
using testing::on_device;
using testing::run_tessera;
using testing::TestFolder;
using testing::training;

const std::string kExperts = TESSERA_SOURCE_DIR "/configs/moe_mixtral_tiny.toml";

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
  const std::vector<std::string> small = {"run.steps=12",
                                          "validation.every_steps=6",
                                          "model.block.mlp.experts=4",
                                          "model.block.mlp.ffn=48"};
  expect_near(trained("cuda_emulated", folder.path() / "cuda", small, kExperts),
              trained("reference", folder.path() / "reference", small, kExperts),
              26);
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
  const auto until = [&](const std::string& out, const std::string& steps) {
    return trained("cuda_emulated",
                   folder.path() / out,
                   {"run.steps=" + steps, "lr.decay_steps=12", "validation.every_steps=6"});
  };
  const Numbers once = until("once", "12");
  EXPECT_EQ(once.size(), 26U);
  until("again", "6");
  EXPECT_EQ(until("again", "12"), once);
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
