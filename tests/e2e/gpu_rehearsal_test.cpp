// tests/gpu without a GPU: its scripts over the emulated one, so that they work on the day when
// there is a GPU for a quarter of an hour.
#include <gmock/gmock.h>

#include "program_support.hpp"

namespace tessera::testing {
namespace gpu_rehearsal_test {

using ::testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr const char* kPatience = "10";
#else
constexpr const char* kPatience = "2";  // other tests run at the same time
#endif

std::vector<std::string> rehearsal(const std::string& out, std::vector<std::string> more) {
  std::vector<std::string> command = {TESSERA_SOURCE_DIR "/tests/gpu/run.sh",
                                      "--device",
                                      "cuda_emulated",
                                      "--quick",
                                      "--patience",
                                      kPatience,
                                      "--out",
                                      out};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

TEST(GpuRehearsal, EachPartRunsAndFindsNothing) {
  const TestFolder folder;
  const ProcessResult result =
      run_process(rehearsal(folder.at("out"), {"--build", TESSERA_BUILD_DIR}));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const std::string results = folder.read("out/results.json");
  for (const char* part :
       {"versions", "kit", "shakespeare", "layouts", "nccl", "bad_input", "pytorch", "sanitizer"}) {
    EXPECT_THAT(results, HasSubstr(std::string("\"") + part + "\": {")) << result.out;
  }
}

TEST(GpuRehearsal, SaysWhyItIsSkipped) {
  const TestFolder folder;
  ProcessOptions no_gpu;
  no_gpu.environment["TESSERA_EMULATED_GPUS"] = "0";
  const ProcessResult result =
      run_process(rehearsal(folder.at("out"), {"--build", TESSERA_BUILD_DIR}), no_gpu);
  EXPECT_EQ(result.exit_code, 77) << result.out << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("tests/gpu: skipped: gpu_check: device \"cuda_emulated\": no "
                        "GPU is visible here"));
  ProcessOptions no_library;
  no_library.environment["TESSERA_EMULATED_FAULT"] = "no_cublaslt";
  const ProcessResult without =
      run_process(rehearsal(folder.at("out"), {"--build", TESSERA_BUILD_DIR}), no_library);
  EXPECT_EQ(without.exit_code, 77) << without.out << without.err;
  EXPECT_THAT(without.err, HasSubstr("tests/gpu: skipped: gpu_check: cuBLASLt is not found"));
}

TEST(GpuRehearsal, FailsWhereADeviceCannotBeMadeOnAGpu) {
  const TestFolder folder;
  ProcessOptions old;
  old.environment["TESSERA_EMULATED_DRIVER"] = "12000";
  const ProcessResult result =
      run_process(rehearsal(folder.at("out"), {"--build", TESSERA_BUILD_DIR}), old);
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("tests/gpu: failed, with a GPU here: gpu_check: device"));
}

TEST(GpuRehearsal, TellsWhatIsNotBuilt) {
  const TestFolder folder;
  const std::string empty = folder.path().string();
  const ProcessResult result = run_process(rehearsal(empty + "/out", {"--build", empty}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "tests/gpu: " + empty + "/bin/tessera, " + empty +
                "/tests/gpu_check: not built, or not in the bundle\n");
}

TEST(GpuRehearsal, OfABundleWorksOnItsOwn) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a bundle is of a Release build";
#endif
  const TestFolder folder;
  const std::string bundle = folder.at("bundle");
  const ProcessResult packed = run_process({TESSERA_SOURCE_DIR "/tests/gpu/bundle.sh",
                                            "--build",
                                            TESSERA_BUILD_DIR,
                                            "--out",
                                            bundle,
                                            "--device",
                                            "cuda_emulated",
                                            "--no-text"});
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_THAT(packed.err,
              ::testing::ContainsRegex("wants glibc [0-9.]+ and GLIBCXX_3[.]4[.][0-9]+ or later"));
  const ProcessResult result =
      run_process(rehearsal(folder.at("out"), {"--bundle", bundle, "--only", "versions"}));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("versions: ours: product bf16 value="));
}

}  // namespace gpu_rehearsal_test
}  // namespace tessera::testing
