// The kernels for GPUs of examples/plugin_operation, over the emulator, in a training. That they
// are compiled by nvcc in a project of their own is a part of run_plugins.sh (author_test.cpp).
#include <gmock/gmock.h>

#include "common/metrics_lines.hpp"
#include "program_support.hpp"

namespace tessera {
namespace cuda_example_test {

using testing::metric_in;
using testing::metrics_lines;
using testing::run_tessera;
using testing::TestFolder;

std::vector<double> losses(const std::string& device, const std::string& precision) {
  const TestFolder folder;
  const std::string out = folder.path() / "run";
  std::vector<std::string> command = {
      "train", TESSERA_SOURCE_DIR "/examples/plugin_operation/squared_relu.toml"};
  for (const std::string& set :
       {std::string("plugins.path=[\"" TESSERA_BUILD_DIR "/tests/cuda\", \"" TESSERA_BUILD_DIR
                    "/tests/plugins/squared_relu\"]"),
        "device.type=" + device,
        "precision.compute=" + precision,
        std::string("parallel.tensor=1"),
        std::string("data.path=" TESSERA_SOURCE_DIR "/LICENSE"),
        std::string("run.steps=6"),
        std::string("checkpoint.save=false"),
        "run.out=" + out}) {
    command.insert(command.end(), {"--set", set});
  }
  if (precision == "fp16") {  // a scale that need not shrink first: no step is skipped
    command.insert(command.end(), {"--set", "precision.loss_scale_start=1024"});
  }
  const ProcessResult result = run_tessera(std::move(command));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  std::vector<double> found;
  for (const std::string& line : metrics_lines(out)) {
    found.push_back(metric_in(line, "loss").value_or(0));
    found.push_back(metric_in(line, "grad_norm").value_or(0));
  }
  return found;
}

void expect_near(const std::string& precision, double tolerance) {
  const std::vector<double> found = losses("cuda_emulated", precision);
  const std::vector<double> wanted = losses("reference", precision);
  ASSERT_EQ(found.size(), 12U);
  ASSERT_EQ(wanted.size(), 12U);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i] / wanted[i], 1, tolerance) << precision << ", number " << i;
  }
}

TEST(CudaExample, TrainsAsTheReferenceDoes) {
  expect_near("fp32", 1e-5);
  expect_near("bf16", 1e-3);  // roundings differ
  expect_near("fp16", 1e-3);
}

}  // namespace cuda_example_test
}  // namespace tessera
