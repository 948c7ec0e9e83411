// What libraries read from the environment: the table of plugins/devices/cpu/README.md. The number
// of threads that a product was made for is the number that runs it, and bits are those of a plain
// run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "train_support.hpp"

namespace tessera {
namespace environment_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TinyRun;

using Variables = std::map<std::string, std::string>;

// Products that are worth two threads.
using Sets = std::vector<std::string>;
const Sets kTwoThreads = {"device.threads=2",
                          "model.hidden=96",
                          "batch.micro=8",
                          "model.dropout=0",
                          "checkpoint.save=false"};

Sets with(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

class LibrariesInTheEnvironment : public ::testing::Test {
 protected:
  LibrariesInTheEnvironment() { plain_ = metrics({}); }

  ProcessResult train(const std::string& out,
                      const Variables& variables,
                      const std::vector<std::string>& sets = kTwoThreads) const {
    return run({"train"}, variables, TinyRun::steps(6, out, sets));
  }
  ProcessResult run(const std::vector<std::string>& words,
                    const Variables& variables,
                    const std::vector<std::string>& sets) const {
    ProcessOptions options = run_.options();
    options.environment.insert(variables.begin(), variables.end());
    std::vector<std::string> command = run_.command(sets);
    command.erase(command.begin() + 1);  // "train"
    command.insert(command.begin() + 1, words.begin(), words.end());
    return run_process(command, options);
  }
  /// The metrics of a run that ends well.
  std::vector<std::string> metrics(const Variables& variables,
                                   const std::vector<std::string>& sets = kTwoThreads) {
    const std::string out = "run" + std::to_string(runs_++);
    const ProcessResult result = train(out, variables, sets);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    last_ = result.err + result.out;
    return run_.metrics(out);
  }
  void expect_same_bits(const Variables& variables) {
    const std::string named = variables.begin()->first + "=" + variables.begin()->second;
    EXPECT_EQ(metrics(variables), plain_) << named;
  }

  TinyRun run_;
  std::vector<std::string> plain_;
  std::string last_;  // what the last run wrote for people
  int runs_ = 0;
};

TEST_F(LibrariesInTheEnvironment, OfOpenMPChangesNoBit) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"OMP_NUM_THREADS", "1"},
           {"OMP_NUM_THREADS", "7"},
           {"OMP_DYNAMIC", "true"},
           {"OMP_NESTED", "true"},
           {"OMP_MAX_ACTIVE_LEVELS", "3"},
           {"OMP_SCHEDULE", "dynamic,1"},
           {"OMP_WAIT_POLICY", "passive"},
           {"GOMP_SPINCOUNT", "10"},
           {"OMP_STACKSIZE", "1M"},
           {"OMP_THREAD_LIMIT", "2"},
           {"OMP_TEAMS_THREAD_LIMIT", "1"},
           {"OMP_CANCELLATION", "true"},
           {"OMP_PROC_BIND", "true"},
           {"OMP_PLACES", "{0}"},
           {"GOMP_CPU_AFFINITY", "0"},
           {"KMP_DYNAMIC_MODE", "load_balance"},
       }) {
    expect_same_bits({{name, value}});
  }
}

TEST_F(LibrariesInTheEnvironment, OfTheCLibraryChangesNoBit) {
  expect_same_bits({{"GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F"}});
  expect_same_bits({{"LC_ALL", "de_DE.UTF-8"}});
  expect_same_bits({{"MALLOC_PERTURB_", "7"}});  // what is read before it is written would show
}

TEST_F(LibrariesInTheEnvironment, OfOneDnnChangesNoBit) {
  for (const std::string prefix : {"ONEDNN_", "DNNL_"}) {
    expect_same_bits({{prefix + "DEFAULT_FPMATH_MODE", "ANY"}});
    expect_same_bits({{prefix + "CPU_ISA_HINTS", "PREFER_YMM"}});
    expect_same_bits({{prefix + "PRIMITIVE_CACHE_CAPACITY", "0"}});
  }
  // The kinds of numbers that a primitive may use are in its description.
  EXPECT_THAT(train("described", {{"ONEDNN_DEFAULT_FPMATH_MODE", "BF16"}, {"ONEDNN_VERBOSE", "2"}}),
              Prints(0, Not(HasSubstr("fpmath:bf16"))));
}

// Kernels of a smaller instruction set may give other last bits, so ranks compare it.
TEST_F(LibrariesInTheEnvironment, ALimitOfOneDnnsInstructionsIsNamed) {
  metrics({{"ONEDNN_MAX_CPU_ISA", "AVX2"}}, with(kTwoThreads, {"device.fp32_matmul=onednn"}));
  EXPECT_THAT(last_, HasSubstr("; ONEDNN_MAX_CPU_ISA=AVX2"));
}

// MKL is where tests/oracle/venv.sh has installed it.
TEST_F(LibrariesInTheEnvironment, OfMklChangesNoBit) {
  const char* folder = std::getenv("TESSERA_TEST_MKL");
  if (folder == nullptr) GTEST_SKIP() << "TESSERA_TEST_MKL names no folder with MKL";
  const Sets by_mkl =
      with(kTwoThreads, {"device.fp32_matmul=mkl", std::string("device.mkl_folder=") + folder});
  plain_ = metrics({}, by_mkl);
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"MKL_NUM_THREADS", "1"},
           {"MKL_DOMAIN_NUM_THREADS", "MKL_DOMAIN_BLAS=1"},
           {"MKL_DYNAMIC", "false"},
           {"MKL_THREADING_LAYER", "SEQUENTIAL"},
           {"MKL_INTERFACE_LAYER", "ILP64"},
           {"MKL_CBWR", "COMPATIBLE"},
           {"MKL_NUM_STRIPES", "2"},
           {"MKL_DISABLE_FAST_MM", "1"},
           {"OMP_DYNAMIC", "true"},
       }) {
    EXPECT_EQ(metrics({{name, value}}, by_mkl), plain_) << name;
  }
  metrics({{"MKL_ENABLE_INSTRUCTIONS", "AVX2"}}, by_mkl);
  EXPECT_THAT(last_, HasSubstr("; MKL_ENABLE_INSTRUCTIONS=AVX2"));
}

// As a library does that is linked with -ffast-math, and worse.
TEST_F(LibrariesInTheEnvironment, APreloadedLibraryThatChangesRoundingIsUndone) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer wants to be loaded first";
#endif
  expect_same_bits(
      {{"LD_PRELOAD", TESSERA_BUILD_DIR "/tests/plugins/denormals/libtessera_test_denormals.so"}});
#ifdef __x86_64__
  EXPECT_THAT(last_, HasSubstr("device \"cpu\": a library of this process switched denormal"));
#endif
}

TEST_F(LibrariesInTheEnvironment, SmallerTeamsAreRefusedOrTaken) {
  const auto refused = [&](const Variables& variables, const std::vector<std::string>& sets) {
    const ProcessResult result = train("refused", variables, sets);
    EXPECT_NE(result.exit_code, 0) << result.err;
    return result.last_error();
  };
  Sets two_ranks = kTwoThreads, automatic = kTwoThreads;
  two_ranks.push_back("parallel.data=2");
  two_ranks.push_back("batch.micro=4");
  automatic.push_back("device.threads=\"auto\"");
  for (const std::vector<std::string>& sets : {kTwoThreads, two_ranks}) {
    EXPECT_EQ(refused({{"OMP_THREAD_LIMIT", "1"}}, sets),
              "device.threads = 2, but OMP_THREAD_LIMIT=1 allows 1: unset it, or set "
              "device.threads to 1 or \"auto\"");
    EXPECT_EQ(refused({{"OMP_MAX_ACTIVE_LEVELS", "0"}}, sets),
              "device.threads = 2, but OMP_MAX_ACTIVE_LEVELS=0 allows 1: unset it, or set "
              "device.threads to 1 or \"auto\"");
  }
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"config", "check"}, {"plan"}}) {
    std::vector<std::string> sets = kTwoThreads;
    sets.emplace_back("model.heads=5");
    const ProcessResult checked =
        run(words, {{"OMP_THREAD_LIMIT", "1"}}, TinyRun::steps(6, "run", sets));
    EXPECT_EQ(checked.exit_code, 2);
    EXPECT_THAT(checked.err,
                ::testing::StartsWith("device.threads = 2, but OMP_THREAD_LIMIT=1 allows 1: unset "
                                      "it, or set device.threads to 1 or \"auto\"\n"));
    if (words[0] == "config") EXPECT_THAT(checked.err, HasSubstr("heads"));  // all the rest too
  }
  ASSERT_EQ(train("saved", {}, {"device.threads=2"}).exit_code, 0);
  ProcessOptions limited = run_.options();
  limited.environment["OMP_THREAD_LIMIT"] = "1";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"calibrate", "--threads", "2"},
        {"checkpoint", "reshard", run_.at("saved"), run_.at("resharded")}}) {
    std::vector<std::string> command = words;
    command.insert(command.begin(), testing::tessera_program());
    const ProcessResult result = run_process(command, limited);
    EXPECT_EQ(result.exit_code, 2) << words[0];
    EXPECT_EQ(result.err,
              "device.threads = 2, but OMP_THREAD_LIMIT=1 allows 1: unset it, or set "
              "device.threads to 1 or \"auto\"\n");
  }
  for (const Variables& limit :
       {Variables{{"OMP_THREAD_LIMIT", "1"}}, Variables{{"OMP_MAX_ACTIVE_LEVELS", "0"}}}) {
    const std::string named = limit.begin()->first + "=" + limit.begin()->second;
    EXPECT_EQ(metrics(limit, automatic), plain_) << named;
    if (std::thread::hardware_concurrency() < 2) continue;
    EXPECT_THAT(last_, HasSubstr("device.threads = \"auto\" is 1 and not ")) << named;
    EXPECT_THAT(last_, HasSubstr(": " + named));
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // theirs are larger
  EXPECT_EQ(refused({{"OMP_STACKSIZE", "64k"}}, kTwoThreads),
            "threads of OpenMP have stacks of 64 KiB (OMP_STACKSIZE=64k), and this program needs "
            "512 KiB: unset it, or give more");
#endif
}

/// Where each thread of a process may run.
std::set<std::string> places_of(pid_t process) {
  std::set<std::string> places;
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::ifstream file(task.path() / "status");
    for (std::string line; std::getline(file, line);) {
      constexpr std::string_view kName = "Cpus_allowed_list:\t";
      if (line.starts_with(kName)) places.insert(line.substr(kName.size()));
    }
  }
  return places;
}

class Bound : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "there is one processor";
  }
  /// The places of each rank of a run of two.
  std::vector<std::set<std::string>> places(const Variables& variables,
                                            const std::string& threads = "1") {
    ProcessOptions options = run_.options();
    options.environment.insert(variables.begin(), variables.end());
    Process run(run_.command(TinyRun::steps(
                    1000000, "bound" + threads, {"parallel.data=2", "device.threads=" + threads})),
                options);
    EXPECT_TRUE(run.shows("step", 3)) << run.err();
    std::vector<std::set<std::string>> found;
    for (const int rank : {0, 1}) {
      found.push_back(places_of(testing::rank_process(run_.mark(), rank)));
    }
    run.send(SIGTERM);
    const ProcessResult result = run.wait();
    EXPECT_EQ(result.exit_code, 3) << result.err;
    said_ = result.err;
    return found;
  }
  TinyRun run_;
  std::string said_;
};

TEST_F(Bound, RanksHaveProcessorsOfTheirOwn) {
  for (const Variables& variables : {Variables{{"OMP_PROC_BIND", "true"}},
                                     Variables{{"OMP_PROC_BIND", "close"}},
                                     Variables{{"OMP_PLACES", "cores"}},
                                     Variables{{"OMP_PLACES", "{0},{1}"}},
                                     Variables{{"GOMP_CPU_AFFINITY", "0 1"}}}) {
    const auto found = places(variables);
    for (const std::string& place : found[0]) {
      EXPECT_EQ(found[1].count(place), 0) << variables.begin()->first << ": " << place;
    }
  }
}

TEST_F(Bound, RanksThatAreTooManyAreNotBound) {
  const std::string threads = std::to_string(std::thread::hardware_concurrency());
  const auto found = places({{"OMP_PROC_BIND", "true"}}, threads);
  EXPECT_EQ(found[0], found[1]);
  EXPECT_THAT(
      said_,
      HasSubstr("OMP_PROC_BIND=true is without effect: 2 ranks of " + threads + " threads have "));
}

TEST_F(Bound, RanksOfAnotherStarterAreToldWhereTheyShareAProcessor) {
  std::vector<std::unique_ptr<Process>> ranks;
  for (const std::string rank : {"0", "1"}) {
    ProcessOptions options = run_.options();
    options.environment.insert({{"RANK", rank},
                                {"WORLD_SIZE", "2"},
                                {"LOCAL_RANK", rank},
                                {"LOCAL_WORLD_SIZE", "2"},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", "29513"},
                                {"TORCHELASTIC_RUN_ID", run_.at("")},
                                {"OMP_PROC_BIND", "close"}});
    ranks.push_back(std::make_unique<Process>(
        run_.command(TinyRun::steps(2, "told", {"parallel.data=2"})), options));
  }
  EXPECT_THAT(ranks[0]->wait(),
              Exits(0,
                    "ranks 0 and 1 run on processor ",
                    "by turns: unset OMP_PROC_BIND=close, or let what starts them"));
  EXPECT_THAT(ranks[1]->wait().err, Not(HasSubstr("by turns")));
}

// All threads of a team, and not only the first, have a place.
TEST_F(Bound, AProcessKeepsAllItsProcessors) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "loops have one thread under TSan (parallel_for)";
#endif
  ProcessOptions options = run_.options();
  options.environment["OMP_PROC_BIND"] = "true";
  const Process run(
      run_.command(TinyRun::steps(
          1000000, "alone", {"device.threads=2", "model.hidden=96", "batch.micro=8"})),
      options);
  ASSERT_TRUE(run.shows("step", 3)) << run.err();
  EXPECT_GE(places_of(run.pid()).size(), 2);
}

}  // namespace environment_test
}  // namespace tessera
