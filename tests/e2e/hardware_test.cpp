// `run.hardware`: a run tells its MFU where the peak is known, and nowhere else.
#include <gmock/gmock.h>

#include <filesystem>

#include "common/metrics_lines.hpp"
#include "train_support.hpp"

namespace tessera::testing {
namespace hardware_test {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RunHardware, WithoutItNoMfuIsTold) {
  const TinyRun run;
  const ProcessResult result = run.train(TinyRun::steps(2, "out"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(ContainsRegex("tok/s  [0-9.]+ [MG]FLOP/s"), Not(HasSubstr("MFU"))));
  EXPECT_THAT(read_file(run.at("out/metrics.jsonl")),
              AllOf(HasSubstr("\"flops_per_second\":"), Not(HasSubstr("mfu"))));
  EXPECT_THAT(read_file(run.at("out/report.html")),
              AllOf(HasSubstr("FLOP/s"), Not(HasSubstr("MFU"))));
}

// The file that sets the key and the table are in one folder, and the run is started elsewhere.
TEST(RunHardware, IsWhatMfuIsAShareOf) {
  const TinyRun run;
  std::filesystem::create_directory(run.at("tables"));
  run.folder.write("tables/slow.toml", "name = \"slow\"\n[peak]\nfp32 = 4e9\nbf16 = 1e9\n");
  run.folder.write("tables/overlay.toml", "[run]\nhardware = \"slow.toml\"\n");
  std::vector<std::string> command =
      run.command(TinyRun::steps(2, "out", {"parallel.data=2", "comm.type=shm"}));
  command.insert(command.end(), run.at("tables/overlay.toml"));
  const ProcessResult result = run_process(command, run.options());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("tok/s  [0-9.]+ [MG]FLOP/s a rank, MFU [0-9.]+ %"));
  const std::string line = read_file(run.at("out/metrics.jsonl"));
  const auto achieved = metric_in(line, "flops_per_second"), mfu = metric_in(line, "mfu");
  ASSERT_TRUE(achieved && mfu) << line;
  EXPECT_NEAR(*mfu / (*achieved / 4e9), 1, 1e-12);
  EXPECT_THAT(read_file(run.at("out/report.html")), HasSubstr(" a rank, MFU "));
  EXPECT_THAT(read_file(run.at("out/resolved.toml")),
              HasSubstr("hardware = \"" + run.at("tables/slow.toml") + "\""));

  // A table may come and go: it is not what made the losses.
  EXPECT_THAT(run.train(TinyRun::steps(3, "out", {"parallel.data=2", "comm.type=shm"})),
              Prints(0, Not(HasSubstr("MFU"))));
}

TEST(RunHardware, NeedsThePeakOfTheRunsType) {
  const TinyRun run;
  run.folder.write("gpu.toml", "name = \"a GPU\"\n[peak]\nbf16 = 1e12\n");
  const auto error = [&](const std::vector<std::string>& sets, const std::string& command) {
    std::vector<std::string> all = run.command(TinyRun::steps(2, "out", sets));
    if (command == "check") {
      all[1] = "config";
      all.insert(all.begin() + 2, "check");
    }
    const ProcessResult result = run_process(all, run.options());
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  };
  for (const char* command : {"train", "check"}) {
    EXPECT_THAT(error({"run.hardware=gpu.toml"}, command),
                AllOf(HasSubstr("[run] hardware: " + run.at("gpu.toml") +
                                ": [peak] fp32 is 0: the table has no rate of \"a GPU\" for "
                                "products in fp32"),
                      HasSubstr("--set")));
    EXPECT_THAT(error({"run.hardware=nowhere.toml"}, command),
                AllOf(HasSubstr("[run] hardware: "), HasSubstr("there is no such file")));
  }
  run.folder.write("study.toml", "fp32_timed_as = \"bf16\"\n[peak]\nbf16 = 1e12\n");
  EXPECT_THAT(error({"run.hardware=study.toml"}, "train"),
              HasSubstr(run.at("study.toml") +
                        ": fp32_timed_as = \"bf16\" is for predictions of another run, and this "
                        "one computes in fp32"));
}

TEST(RunHardware, IsWhatPlanPredictsWith) {
  const TinyRun run;
  run.folder.write("mine.toml", "name = \"mine\"\n[peak]\nfp32 = 4e9\n");
  run.folder.write("other.toml", "name = \"other\"\n[peak]\nfp32 = 8e9\n");
  const auto plan = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command =
        run.command(TinyRun::steps(2, "out", {"run.hardware=mine.toml"}));
    command[1] = "plan";
    command.insert(command.end(), more.begin(), more.end());
    const ProcessResult result = run_process(command, run.options());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  EXPECT_THAT(plan({}),
              HasSubstr("hardware table: " + run.at("mine.toml") + "; run.hardware names it\n"));
  EXPECT_THAT(plan({"--hardware", "other.toml"}), HasSubstr("hardware table: other.toml\n"));
  std::vector<std::string> missing =
      run.command(TinyRun::steps(2, "out", {"run.hardware=nowhere.toml"}));
  missing[1] = "plan";
  EXPECT_THAT(run_process(missing, run.options()),
              Exits(2, "[run] hardware: ", "there is no such file"));
}

const std::string kEmulated = "plugins.path=[\"" TESSERA_BUILD_DIR "/tests/cuda\"]";

// What computes with the factors rounded is not measured against the peak of what does not.
TEST(RunHardware, OfRoundedProductsHasAPeakOfItsOwn) {
  const TinyRun run;
  run.folder.write("both.toml", "[peak]\nfp32 = 1e9\ntf32 = 8e9\n");
  run.folder.write("one.toml", "[peak]\nfp32 = 1e9\n");
  const auto plan = [&](const std::string& table, const std::string& products, int code = 0) {
    std::vector<std::string> command =
        run.command(TinyRun::steps(2,
                                   "out",
                                   {"device.type=cuda_emulated",
                                    "device.fp32_products=" + products,
                                    kEmulated,
                                    "run.hardware=" + table}));
    command[1] = "plan";
    command.emplace_back("--json");
    const ProcessResult result = run_process(command, run.options());
    EXPECT_EQ(result.exit_code, code) << result.err;
    return code == 0 ? result.out : result.err;
  };
  const auto number = [](const std::string& json, const std::string& key) {
    return metric_in(json, key).value_or(0);
  };
  const std::string plain = plan("both.toml", "fp32"), rounded = plan("both.toml", "tf32");
  EXPECT_LT(number(rounded, "step_seconds"), number(plain, "step_seconds"));
  EXPECT_NEAR(number(plain, "mfu") * number(plain, "step_seconds"),
              8 * number(rounded, "mfu") * number(rounded, "step_seconds"),
              1e-9);
  EXPECT_THAT(plan("one.toml", "tf32", 2), HasSubstr("/one.toml: [peak] tf32 is 0: "));
}

TEST(RunHardware, IsMeasuredOnADeviceWithMemoryOfItsOwn) {
  const TinyRun run;
  ProcessOptions options = run.options();
  options.environment["TESSERA_EMULATED_GPUS"] = "2";
  const auto calibrate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {tessera_program(),
                                        "calibrate",
                                        "--path",
                                        TESSERA_BUILD_DIR "/tests/cuda",
                                        "--out",
                                        "gpu.toml"};
    command.insert(command.end(), more.begin(), more.end());
    return run_process(command, options);
  };
  const ProcessResult result = calibrate({"--device", "auto"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--device auto is \"cuda_emulated\" here: 2 GPUs are visible"));
  const std::string table = read_file(run.at("gpu.toml"));
  EXPECT_THAT(table,
              AllOf(HasSubstr("on 1 rank of "),
                    HasSubstr("\n# cuda_emulated: "),
                    HasSubstr("\nname = \"one rank on cuda_emulated\"\nranks_per_host = 2\n"),
                    HasSubstr("operations on few elements: "),
                    HasSubstr("\n# fp64 ["),
                    HasSubstr("\n# bf16 ["),
                    HasSubstr("\n# add: "),
                    HasSubstr("\ncapacity = 4294967296\nshared = false\n"),
                    HasSubstr("\n# One rank measures no links: [inside] and [between] are those of "
                              "a small host until they\n# are written here")));
  std::vector<std::string> plan = run.command(
      TinyRun::steps(2, "out", {"device.type=cuda_emulated", kEmulated, "run.hardware=gpu.toml"}));
  plan[1] = "plan";
  EXPECT_THAT(run_process(plan, run.options()), Prints(0, "MFU "));

  EXPECT_THAT(calibrate({"--device", "cuda_emulated", "--ranks", "2"}),
              Exits(2,
                    "--ranks 2: the device \"cuda_emulated\" has memory of its own, and \"shm\" "
                    "joins ranks through the host's; measure --ranks 1, and write [inside] and "
                    "[between] of the table by hand, as in configs/hardware/h100-dgx.toml"));
}

}  // namespace hardware_test
}  // namespace tessera::testing
