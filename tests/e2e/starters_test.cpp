// Ranks that another program started: as many processes with its variables, set here.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <memory>
#include <numeric>

#include "train_support.hpp"

namespace tessera::testing {
namespace starters_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Variables open_mpi(int rank, int world) {
  Variables variables;
  for (const char* prefix : {"OMPI_COMM_WORLD_", "OMPI_COMM_WORLD_LOCAL_"}) {
    variables[std::string(prefix) + "RANK"] = std::to_string(rank);
    variables[std::string(prefix) + "SIZE"] = std::to_string(world);
  }
  return variables;
}

Variables mpich(int rank, int world) {
  return {{"PMI_RANK", std::to_string(rank)},
          {"PMI_SIZE", std::to_string(world)},
          {"MPI_LOCALRANKID", std::to_string(rank)},
          {"MPI_LOCALNRANKS", std::to_string(world)}};
}

Variables torchrun(int rank, int world) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(world)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "29641"},
          {"TORCHELASTIC_RUN_ID", "starters-" + std::to_string(getpid())}};
}

class Starters : public ::testing::Test {
 protected:
  std::unique_ptr<Process> start(const std::vector<std::string>& command,
                                 const Variables& variables) const {
    ProcessOptions options = run_.options();
    options.environment.insert(variables.begin(), variables.end());
    return std::make_unique<Process>(command, options);
  }
  // Behind a process of its own, which stays.
  static std::vector<std::string> wrapped(const std::vector<std::string>& command) {
    std::string line;
    for (const std::string& word : command) line += "'" + word + "' ";
    return {"sh", "-c", line + "; exit $?"};
  }
  // Two ranks train one run.
  void expect_one_run(const std::function<Variables(int, int)>& variables, bool with_wrapper) {
    const std::vector<std::string> command = run_.command(TinyRun::steps(3, "run"));
    std::vector<std::unique_ptr<Process>> ranks;
    for (const int rank : {1, 0}) {
      ranks.push_back(start(with_wrapper ? wrapped(command) : command, variables(rank, 2)));
    }
    std::string out;
    for (const auto& rank : ranks) {
      const ProcessResult result = rank->wait();
      EXPECT_EQ(result.exit_code, 0) << result.err;
      out += result.out;
    }
    EXPECT_THAT(out, HasSubstr("data 2, 2 ranks over "));
    EXPECT_EQ(run_.metrics("run").size(), 3U);
  }
  const TinyRun run_;
};

TEST_F(Starters, OpenMpi) { expect_one_run(open_mpi, false); }
TEST_F(Starters, OpenMpiWithAScriptAroundEachRank) { expect_one_run(open_mpi, true); }
TEST_F(Starters, Mpich) { expect_one_run(mpich, false); }
TEST_F(Starters, MpichWithAScriptAroundEachRank) { expect_one_run(mpich, true); }

TEST_F(Starters, RanksThatMeetElsewhereSayWhy) {
  // Scripts that set the variables themselves cannot be told from starters.
  std::vector<std::unique_ptr<Process>> ranks;
  for (const int rank : {0, 1}) {
    std::vector<std::string> command =
        wrapped(run_.command(TinyRun::steps(3, "run", {"comm.init_timeout_s=1"})));
    for (const auto& [name, value] : open_mpi(rank, 2)) {
      command[2] = name + "=" + value + " " + command[2];
    }
    ranks.push_back(start(command, {}));
  }
  for (const auto& rank : ranks) {
    EXPECT_THAT(rank->wait(), Exits(1, "mpirun gives its job no name", "set TESSERA_JOB"));
  }
}

// Ranks wait as in a shell of `srun -n 4 --pty bash`.
TEST_F(Starters, WhoWaitsForRanksSaysForWhomAndWhy) {
  const Variables shell = {{"SLURM_JOB_ID", "7" + std::to_string(getpid())},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_PROCID", "0"},
                           {"SLURM_LOCALID", "0"},
                           {"SLURM_NNODES", "1"},
                           {"SLURM_NTASKS", "4"}};
  Variables other = shell;
  other["SLURM_JOB_ID"] = "8" + std::to_string(getpid());
  other["SLURM_PROCID"] = "2";
  const std::vector<std::string> command =
      run_.command(TinyRun::steps(3, "run", {"comm.init_timeout_s=7"}));
  const auto rank = start(command, shell), alone = start(command, other);
  // It serves the store, and tells its error before it waits for others to hear of it: a starter
  // may end it meanwhile.
  EXPECT_TRUE(rank->shows("ranks 1, 2, 3 did not start within"));
  rank->send(SIGTERM);
  const ProcessResult result = rank->wait();
  EXPECT_EQ(result.signal, SIGTERM);
  EXPECT_THAT(result.err,
              HasSubstr("waiting for ranks 1, 2, 3 of 4 to start, for up to 7 s "
                        "(comm.init_timeout_s): SLURM_STEP_ID=0, SLURM_PROCID=0 and "
                        "SLURM_NTASKS=4 say that srun starts them. To start the ranks here "
                        "instead: env -u SLURM_STEP_ID tessera train ...\n"));
  EXPECT_THAT(
      result.last_error(),
      ::testing::StartsWith("ranks 1, 2, 3 did not start within 7.0 s (comm.init_timeout_s)"));
  EXPECT_THAT(alone->wait().err, HasSubstr("waiting for rank 0 of 4 to start, for up to 7 s"));
}

// Two hosts with disks of their own where the run's folder is, and one disk that is too small.
class Folders : public Starters {
 protected:
  void SetUp() override {
    if (run_process({"unshare", "-rm", "true"}).exit_code != 0) {
      GTEST_SKIP() << "this system lets no user mount";
    }
    std::filesystem::create_directory(run_.at("disk"));
  }
  std::vector<std::string> on_own_disk(const std::string& size, int steps) const {
    std::string line;
    for (const std::string& word : run_.command(TinyRun::steps(steps, "disk/run"))) {
      line += " '" + word + "'";
    }
    return {"unshare",
            "-rm",
            "sh",
            "-c",
            "mount -t tmpfs -o size=" + size + " none disk &&" + line +
                "; code=$?; find disk -type f; exit $code"};
  }
};

TEST_F(Folders, ThatHostsDoNotShareAreRefusedBeforeTheFirstStep) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::vector<std::unique_ptr<Process>> ranks;
  for (const int rank : {0, 1}) ranks.push_back(start(on_own_disk("9m", 3), torchrun(rank, 2)));
  for (const auto& rank : ranks) {
    const ProcessResult result = rank->wait();
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.last_error(),
              fmt::format("rank 1 on host {0} does not see what rank 0 wrote into {1} on host {0}: "
                          "ranks of this host have folders of their own there. Checkpoints need a "
                          "folder that all ranks share: set run.out or checkpoint.out",
                          host.data(),
                          run_.at("disk/run/checkpoints")));
    EXPECT_THAT(result.out, ::testing::Not(HasSubstr("flight")));
    EXPECT_THAT(result.out, ::testing::Not(HasSubstr("step ")));
    EXPECT_THAT(result.out, ::testing::Not(HasSubstr(".tmp"))) << "nothing is left behind";
  }
}

TEST_F(Folders, WithoutRoomForACheckpointAreRefusedBeforeTheFirstStep) {
  const ProcessResult small = start(on_own_disk("100k", 3), {})->wait();
  EXPECT_EQ(small.exit_code, 2);
  EXPECT_THAT(small.last_error(),
              AllOf(HasSubstr("disk/run/checkpoints has "),
                    HasSubstr(" KiB free, and a checkpoint of this run takes "),
                    HasSubstr("set run.out or checkpoint.out to a folder on another disk")));
  EXPECT_THAT(small.out, ::testing::Not(HasSubstr("step ")));
  EXPECT_THAT(small.out, ::testing::Not(HasSubstr("flight")));
  EXPECT_THAT(small.out, ::testing::Not(HasSubstr(".tmp")));
}

TEST_F(Starters, RanksThatDoNotFitTheLayoutDoNotWaitForOthers) {
  EXPECT_THAT(
      start(run_.command(TinyRun::steps(3, "run", {"parallel.tensor=2"})), torchrun(0, 3))->wait(),
      Exits(2, "world size 3 is not divisible by tp·cp·pp = 2·1·1 = 2"));
  EXPECT_THAT(
      start(run_.command(TinyRun::steps(3, "run", {"comm.ranks=2"})), torchrun(0, 4))->wait(),
      Exits(2, "--set #3: [comm] ranks = 2, but torchrun started 4"));
}

// What only the dry run finds: rank 0 looks for it, and all ranks say it before they train.
TEST_F(Starters, AMistakeEndsAllRanksBeforeTheyTrain) {
  const std::vector<std::string> command = run_.command(
      TinyRun::steps(3, "run", {"recompute.mode=selective", "recompute.scopes=[\"atn\"]"}));
  const auto first = start(command, torchrun(0, 2));
  const auto second = start(command, torchrun(1, 2));
  for (const auto* rank : {&first, &second}) {
    const ProcessResult result = (*rank)->wait();
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err,
                HasSubstr("--set #4: [recompute] scopes has \"atn\"; the model's blocks have"));
    EXPECT_EQ(result.out, "");
  }
  EXPECT_FALSE(std::filesystem::exists(run_.at("run")));
}

// The same values from other places are the same configuration.
TEST_F(Starters, FilesAndSettingsOfRanksMayDifferWhereValuesDoNot) {
  run_.folder.write("lr.toml", "[lr]\npeak = 2e-3\n");
  std::vector<std::string> from_file = run_.command(TinyRun::steps(3, "run"));
  from_file.push_back(run_.at("lr.toml"));
  const auto first = start(from_file, torchrun(0, 2));
  const auto second =
      start(run_.command(TinyRun::steps(3, "run", {"lr.peak=0.002"})), torchrun(1, 2));
  for (const auto* rank : {&first, &second}) {
    const ProcessResult result = (*rank)->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
}

// Two hosts may have different files at one path.
TEST_F(Starters, RanksWithOtherDataAreRefused) {
  run_.folder.write("other/text.txt", std::string(5000, 'a'));
  std::vector<std::unique_ptr<Process>> ranks;
  for (const int rank : {1, 0}) {
    ProcessOptions options = run_.options();
    const Variables variables = open_mpi(rank, 2);
    options.environment.insert(variables.begin(), variables.end());
    if (rank == 1) options.folder = run_.at("other");
    const auto sets = TinyRun::steps(3, run_.at("run"), {"data.path=/proc/self/cwd/text.txt"});
    ranks.push_back(std::make_unique<Process>(run_.command(sets), options));
  }
  for (const auto& rank : ranks) {
    EXPECT_THAT(rank->wait(), Exits(2, "data", "give all hosts the same data"));
  }
}

}  // namespace starters_test
}  // namespace tessera::testing
