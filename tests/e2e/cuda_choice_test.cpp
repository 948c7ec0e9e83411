// Which GPU a rank has, what a run says of it, and what it says where there is none, over the
// emulator (tests/cuda_emulated).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/metrics_lines.hpp"
#include "cuda_support.hpp"

namespace tessera {
namespace cuda_choice_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kShakespeare;
using ::testing::MatchesRegex;
using ::testing::Not;
using testing::on_device;
using testing::run_tessera;
using testing::TestFolder;
using testing::training;

using Variables = std::map<std::string, std::string>;

/// What a short training says where the environment describes another machine.
ProcessResult trained_where(const Variables& environment,
                            std::vector<std::string> sets = {},
                            const std::string& device = "cuda_emulated") {
  const TestFolder folder;
  ProcessOptions options;
  options.environment = environment;
  sets.insert(sets.begin(), {"run.steps=2", "validation.every_steps=0", "checkpoint.save=false"});
  return run_tessera(training(device, folder.path() / "run", sets), options);
}

/// The same where nothing is trained, since the configuration or the machine forbids it.
std::string refusal(const Variables& environment, std::vector<std::string> sets = {}) {
  const ProcessResult result = trained_where(environment, std::move(sets));
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
  return result.err;
}

int times(const std::string& text, const std::string& what) {
  int count = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

const std::vector<std::string> kTwoRanks = {"parallel.data=2", "batch.micro=1"};

// --- what is chosen, and how a run says so ---

TEST(CudaChoice, AutoTakesTheGpuAndSaysWhy) {
  const TestFolder folder;
  const std::string out = folder.path() / "run";
  const ProcessResult result = run_tessera(training("auto", out, {"run.steps=2"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("[device] type = \"auto\" is \"cuda_emulated\" here: 1 GPU is visible\n"));
  EXPECT_THAT(result.out,
              HasSubstr("  device      cuda_emulated: Emulated GPU, capability 9.0; driver for "
                        "CUDA 13.0, runtime 13.0; cuBLASLt "));
  EXPECT_THAT(result.out,
              HasSubstr("; GPU 0 of 1, GPU-656d756c-6174-6564-2047-505520000000, 4.00 GiB of 4.00 "
                        "GiB free\n"));
  EXPECT_THAT(testing::read_file(out + "/resolved.toml"),
              AllOf(HasSubstr("type = \"cuda_emulated\" "), HasSubstr("\"auto\": 1 GPU is visi")));
  EXPECT_THAT(testing::read_file(out + "/history.jsonl"), Not(HasSubstr("GiB free")));
}

TEST(CudaChoice, AutoIsTheCpuWhereNoGpuCanBeUsed) {
  const std::vector<std::pair<Variables, std::string>> machines = {
      {{{"TESSERA_EMULATED_GPUS", "0"}}, "no GPU is visible here\n"},
      {{{"CUDA_VISIBLE_DEVICES", ""}}, "no GPU is visible here (CUDA_VISIBLE_DEVICES=)\n"},
      {{{"TESSERA_EMULATED_DRIVER", "0"}}, "there is no NVIDIA driver here\n"},
      {{{"TESSERA_EMULATED_DRIVER", "12040"}},
       "the driver is for CUDA 12.4, older than the runtime 13.0\n"},
      {{{"TESSERA_EMULATED_CAPABILITY", "75"}},
       "1 GPU is visible, of capability 7.x, and this build has code for 8.x, 9.0, 10.0 and "
       "later\n"},
      {{{"TESSERA_EMULATED_FAULT", "broken"}},
       "the NVIDIA driver does not work: system not yet initialized (cudaErrorSystemNotReady)\n"},
      {{{"TESSERA_EMULATED_FAULT", "no_cublaslt"}},
       "1 GPU is visible, but cuBLASLt is not found, by which the device \"cuda\" multiplies "
       "matrices: put the folder of libcublasLt.so.none into LD_LIBRARY_PATH: the toolkit's lib64, "
       "or nvidia/cu13/lib or nvidia/cublas/lib beside an installed PyTorch\n"},
      {{{"TESSERA_EMULATED_FAULT", "crash"}}, "its driver crashed when it was asked: SIGABRT\n"}};
  for (const auto& [environment, why] : machines) {
    ProcessOptions options;
    options.environment = environment;
    EXPECT_THAT(run_tessera(on_device("auto", {"config", "check", kShakespeare}), options),
                Exits(0, "[device] type = \"auto\" is \"cpu\" here: ", "cuda_emulated: " + why));
  }
  ProcessOptions laptop;
  laptop.environment = machines.front().first;
  EXPECT_THAT(run_tessera(on_device("auto", {"plan", kShakespeare, "--world", "1"}), laptop),
              Exits(0, "[device] type = \"auto\" is \"cpu\" here: "));
}

TEST(CudaChoice, ARunOnTheCpuBesideAGpuSaysSoOnce) {
  const std::string notice =
      "2 GPUs are visible, and this run is on \"cpu\", the default: set device.type = "
      "\"cuda_emulated\" or \"auto\"\n";
  const Variables two = {{"TESSERA_EMULATED_GPUS", "2"}};
  const ProcessResult by_default = trained_where(two, kTwoRanks, "");
  EXPECT_EQ(by_default.exit_code, 0) << by_default.err;
  EXPECT_EQ(times(by_default.err, notice), 1) << by_default.err;
  const ProcessResult chosen = trained_where(two, {}, "cpu");
  EXPECT_EQ(chosen.exit_code, 0) << chosen.err;
  EXPECT_EQ(times(chosen.err, "visible"), 0) << chosen.err;
}

TEST(CudaChoice, AnIndexNamesTheGpu) {
  EXPECT_THAT(trained_where({{"TESSERA_EMULATED_GPUS", "2"}}, {"device.index=1"}),
              Prints(0, "; GPU 1 of 2 by device.index, GPU-"));
  EXPECT_THAT(refusal({{"TESSERA_EMULATED_GPUS", "2"}}, {"device.index=2"}),
              AllOf(HasSubstr("device.index: there is no GPU 2: 2 GPUs are visible, and they count "
                              "from 0"),
                    HasSubstr("--set")));
  EXPECT_THAT(refusal({{"TESSERA_EMULATED_GPUS", "4"}, {"CUDA_VISIBLE_DEVICES", "2,3"}},
                      {"device.index=3"}),
              HasSubstr("there is no GPU 3: 2 GPUs are visible (CUDA_VISIBLE_DEVICES=2,3), and "
                        "they count from 0"));
  EXPECT_THAT(refusal({}, {"device.index=-1"}), HasSubstr("index"));
}

// --- machines on which a run cannot be ---

TEST(CudaChoice, NeedsADriverAndAGpu) {
  const std::string device = "device \"cuda_emulated\": ";
  const std::string way_out = ", or choose another device (device.type = \"cpu\")";
  EXPECT_THAT(
      refusal({{"TESSERA_EMULATED_GPUS", "0"}}),
      HasSubstr(device + "no GPU is visible here; look at nvidia-smi and CUDA_VISIBLE_DEVICES" +
                way_out));
  EXPECT_THAT(refusal({{"TESSERA_EMULATED_DRIVER", "12040"}}),
              HasSubstr(device + "the driver is for CUDA 12.4, older than the runtime 13.0; update "
                                 "the driver, or build with an older toolkit"));
  EXPECT_THAT(refusal({{"TESSERA_EMULATED_DRIVER", "0"}}),
              HasSubstr(device + "there is no NVIDIA driver here; install it" + way_out));
  EXPECT_THAT(refusal({{"TESSERA_EMULATED_FAULT", "broken"}}),
              HasSubstr(device +
                        "the NVIDIA driver does not work: system not yet initialized "
                        "(cudaErrorSystemNotReady); look at nvidia-smi and the system's "
                        "log" +
                        way_out));
}

TEST(CudaChoice, NeedsAGpuThatOthersDoNotHold) {
  EXPECT_THAT(trained_where({{"TESSERA_EMULATED_FAULT", "held"}}),
              Exits(1,
                    "device \"cuda_emulated\": GPU 0 (Emulated GPU) cannot be used: devices are "
                    "busy or unavailable (cudaErrorDevicesUnavailable); nvidia-smi shows who "
                    "else does"));
}

TEST(CudaChoice, NeedsCodeForTheGpu) {
  for (const auto& [capability, shown] : {std::pair("75", "7.5"), std::pair("130", "13.0")}) {
    EXPECT_THAT(refusal({{"TESSERA_EMULATED_CAPABILITY", capability}}),
                HasSubstr(std::string("device \"cuda_emulated\": GPU 0 (Emulated GPU) has "
                                      "capability ") +
                          shown +
                          ", and this build has code for 8.x, 9.0, 10.0 and later; choose another "
                          "GPU (device.index, CUDA_VISIBLE_DEVICES) or another device "
                          "(device.type = \"cpu\")"));
  }
}

TEST(CudaChoice, NeedsADriverThatCompilesCodeForALaterGpu) {
  EXPECT_THAT(
      refusal({{"TESSERA_EMULATED_CAPABILITY", "120"}, {"TESSERA_EMULATED_RUNTIME", "13010"}}),
      HasSubstr("device \"cuda_emulated\": GPU 0 (Emulated GPU) has capability 12.0, for which the "
                "driver must compile this build's code, and cannot: it is for CUDA 13.0, and the "
                "toolkit was 13.1; update the driver, or build with a toolkit no newer than the "
                "driver"));
  const ProcessResult known = trained_where({{"TESSERA_EMULATED_CAPABILITY", "120"}});
  EXPECT_EQ(known.exit_code, 0) << known.err;
}

TEST(CudaChoice, RefusesMoreRanksThanGpusBeforeAnyStarts) {
  const std::string err = refusal({}, kTwoRanks);
  EXPECT_THAT(err,
              HasSubstr("device \"cuda_emulated\" has no unit for each of 2 ranks: 1 GPU is "
                        "visible; start at most 1, or let 2 ranks have one (device.share = 2)"));
  EXPECT_THAT(err, Not(HasSubstr("[rank")));
  EXPECT_THAT(refusal({{"TESSERA_EMULATED_GPUS", "0"}}, kTwoRanks),
              HasSubstr("device \"cuda_emulated\": no GPU is visible here; choose another device"));
  EXPECT_THAT(refusal({}, {"device.type=cpu", "device.share=2"}),
              HasSubstr("[device] share has no effect: any number of ranks compute on \"cpu\""));
}

TEST(CudaChoice, RanksMayShareAGpu) {
  std::vector<std::string> sets = {"device.share=2", "comm.staged=true"};
  sets.insert(sets.end(), kTwoRanks.begin(), kTwoRanks.end());
  EXPECT_THAT(trained_where({}, sets), Prints(0, "; GPU 0 of 1, GPU-"));
  EXPECT_THAT(trained_where({{"TESSERA_EMULATED_GPUS", "4"}, {"CUDA_VISIBLE_DEVICES", "3"}},
                            std::move(sets)),
              Prints(0, "GPU 0 of 1, GPU-656d756c-6174-6564-2047-505520000003, "));
}

TEST(CudaChoice, MfuCountsGpus) {
  const TestFolder folder;
  folder.write("slow.toml", "name = \"slow\"\n[peak]\nfp32 = 4e9\nbf16 = 1e9\n");
  const std::string out = folder.path() / "run";
  std::vector<std::string> sets = {"run.steps=2",
                                   "device.share=2",
                                   "comm.staged=true",
                                   "run.hardware=" + folder.at("slow.toml")};
  sets.insert(sets.end(), kTwoRanks.begin(), kTwoRanks.end());
  const ProcessResult result = run_tessera(training("cuda_emulated", out, sets));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string line = testing::read_file(out + "/metrics.jsonl");
  const auto achieved = testing::metric_in(line, "flops_per_second"),
             mfu = testing::metric_in(line, "mfu");
  ASSERT_TRUE(achieved && mfu) << line;
  EXPECT_NEAR(*mfu / (*achieved / 2e9), 1, 1e-12);
}

TEST(CudaChoice, CalibratesWithAGpuForEachRank) {
  EXPECT_THAT(run_tessera({"calibrate",
                           "--device",
                           "cuda_emulated",
                           "--path",
                           TESSERA_BUILD_DIR "/tests/cuda",
                           "--ranks",
                           "2"}),
              Exits(2,
                    "device \"cuda_emulated\": 1 GPU is visible, and --ranks is 2: each rank "
                    "needs a unit of its own"));
}

// --- ranks that do not fit together ---

/// Ranks that torchrun has started.
class Ranks {
 public:
  void start(int rank, int world, Variables environment, const std::vector<std::string>& sets) {
    const std::string number = std::to_string(rank), size = std::to_string(world);
    environment.insert({{"RANK", number},
                        {"WORLD_SIZE", size},
                        {"LOCAL_RANK", number},
                        {"LOCAL_WORLD_SIZE", size},
                        {"MASTER_ADDR", "127.0.0.1"},
                        {"MASTER_PORT", "29513"},
                        {"TORCHELASTIC_RUN_ID", folder_.path()}});
    ProcessOptions options;
    options.environment = std::move(environment);
    std::vector<std::string> command = training("cuda_emulated", folder_.path() / "run", sets);
    command.insert(command.end(), {"--set", "comm.staged=true"});
    command.insert(command.begin(), testing::tessera_program());
    ranks_.push_back(std::make_unique<Process>(command, options));
  }
  /// What each of them wrote; none has trained.
  std::vector<ProcessResult> ends() const {
    std::vector<ProcessResult> ends;
    for (const auto& rank : ranks_) {
      ends.push_back(rank->wait());
      EXPECT_NE(ends.back().exit_code, 0) << ends.back().err;
    }
    return ends;
  }

 private:
  const TestFolder folder_;
  std::vector<std::unique_ptr<Process>> ranks_;
};

/// Both ranks say the same.
void expect_refusal(const std::vector<Variables>& machines,
                    const std::string& text,
                    std::vector<std::string> sets = {}) {
  sets.insert(sets.begin(), kTwoRanks.begin(), kTwoRanks.end());
  Ranks ranks;
  for (const int rank : {0, 1}) {
    ranks.start(rank, 2, machines[static_cast<std::size_t>(rank)], sets);
  }
  for (const ProcessResult& end : ranks.ends()) {
    EXPECT_EQ(end.exit_code, 2);
    EXPECT_THAT(end.err, HasSubstr(text));
  }
}

TEST(CudaRanks, OfOneGpuNameItAndTheKey) {
  const std::string way_out =
      ", 4.00 GiB of 4.00 GiB free; start each where it sees one of its own, or let 2 ranks have "
      "one (device.share = 2)";
  expect_refusal({{}, {}},
                 "ranks 0, 1 compute on the same hardware: GPU 0 of 1, "
                 "GPU-656d756c-6174-6564-2047-505520000000" +
                     way_out);
  const Variables two = {{"TESSERA_EMULATED_GPUS", "2"}};
  expect_refusal({two, two},
                 "ranks 0, 1 compute on the same hardware: GPU 1 of 2 by device.index, "
                 "GPU-656d756c-6174-6564-2047-505520000001" +
                     way_out,
                 {"device.index=1"});
}

TEST(CudaRanks, OfOtherGpusOrDriversAreRefused) {
  const std::string advice =
      "results would differ in their last bits: start on hosts and units that are alike";
  expect_refusal({{{"CUDA_VISIBLE_DEVICES", "0"}, {"TESSERA_EMULATED_CAPABILITY", "80"}}, {}},
                 "ranks disagree on what their device computes with: \"Emulated GPU, capability "
                 "8.0; driver for CUDA 13.0, runtime 13.0");
  expect_refusal({{}, {{"TESSERA_EMULATED_DRIVER", "13010"}}},
                 "driver for CUDA 13.1, runtime 13.0");
  expect_refusal({{}, {{"TESSERA_EMULATED_DRIVER", "13010"}}}, advice);
  // Both serve the same version of CUDA.
  expect_refusal({{{"TESSERA_EMULATED_RELEASE", "580.65.06"}, {"CUDA_VISIBLE_DEVICES", "0"}},
                  {{"TESSERA_EMULATED_RELEASE", "580.82.07"}}},
                 "ranks disagree on what their device computes with: \"Emulated GPU, capability "
                 "9.0; driver 580.65.06 for CUDA 13.0, runtime 13.0; cuBLASLt 13.0.0\"");
}

TEST(CudaRanks, BeyondTheVisibleGpusAreRefused) {
  Ranks ranks;
  const Variables two = {{"TESSERA_EMULATED_GPUS", "2"}};
  for (const int rank : {0, 1, 2}) {
    ranks.start(rank, 3, two, {"parallel.data=3", "batch.global=3", "batch.micro=1"});
  }
  // Rank 0 serves the store, so who is slow may find that it has ended.
  const auto ended = ranks.ends();
  for (const ProcessResult& end : ended) {
    if (&end != &ended.front() && end.exit_code == 1) {
      EXPECT_THAT(end.err, HasSubstr("the process that serves the store"));
      continue;
    }
    EXPECT_EQ(end.exit_code, 2);
    EXPECT_THAT(end.err,
                HasSubstr("device \"cuda_emulated\" has no GPU for each of 3 ranks of this host: 2 "
                          "GPUs are visible; start at most 2 there, or let 2 ranks have one "
                          "(device.share = 2)"));
  }
}

// --- while it runs ---

TEST(CudaChoice, TellsWhoHoldsTheMemoryWhereThereIsNoMore) {
  EXPECT_THAT(
      trained_where({{"TESSERA_EMULATED_MEMORY", std::to_string(40 << 20)},
                     {"TESSERA_EMULATED_OTHERS", std::to_string(8 << 20)}}),
      Exits(1,
            MatchesRegex("(.|\n)*out of memory: [0-9]+ bytes for [a-z]+; [0-9]+ bytes are in use "
                         "\\([0-9.]+ .?i?B of [a-z]+.*\\) and [0-9]+ reserved, [0-9.]+ .?i?B of "
                         "the GPU's 40.0 MiB are free, and 8.00 MiB are held by CUDA and other "
                         "processes, which nvidia-smi names. A smaller \\[batch\\] micro, "
                         "recompute or more ranks need less(.|\n)*")));
}

TEST(CudaChoice, NamesWhatWasLaunchedWhereAKernelLeavesItsMemory) {
  const Variables fault = {{"TESSERA_EMULATED_FAULT", "400"}};
  EXPECT_THAT(
      trained_where(fault),
      Exits(1,
            MatchesRegex("(.|\n)*: an illegal memory access was encountered "
                         "\\(cudaErrorLaunchFailure\\); nothing more runs on this GPU. Launched "
                         "last was \"[a-z_]+\"; device.debug = true waits for each and names the "
                         "one that failed(.|\n)*")));
  EXPECT_THAT(
      trained_where(fault, {"device.debug=true"}),
      Exits(1,
            MatchesRegex("(.|\n)*operation \"[a-z_]+\": the work of this launch: an illegal "
                         "memory access was encountered \\(cudaErrorLaunchFailure\\)(.|\n)*")));
}

}  // namespace cuda_choice_test
}  // namespace tessera
