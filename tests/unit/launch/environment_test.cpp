#include "kernel/launch/environment.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <map>

#include "kernel/launch/rendezvous.hpp"
#include "kernel/launch/slurm_tasks.hpp"
#include "sdk/src/shared/usable_cpus.hpp"
#include "tessera/error.hpp"
#include "tests/common/error_of.hpp"
#include "tests/common/test_folder.hpp"

namespace tessera {
namespace environment_test {

using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using testing::TestFolder;
using Settings = std::map<std::string, std::string>;

// Where the secret of this user is.
const TestFolder& runtime() {
  static const TestFolder folder;
  return folder;
}

std::optional<RankEnvironment> detect(const Settings& settings) {
  return detect_environment([&](const char* name) -> std::optional<std::string> {
    const auto found = settings.find(name);
    if (found == settings.end() && std::string(name) == "XDG_RUNTIME_DIR") {
      return runtime().path().string();
    }
    if (found == settings.end()) return std::nullopt;
    return found->second;
  });
}

Settings with(Settings settings, const Settings& more) {
  for (const auto& [name, value] : more) settings[name] = value;
  return settings;
}

Settings without(Settings settings, const std::string& name) {
  settings.erase(name);
  return settings;
}

const Settings kLauncher = {{"TESSERA_RANK", "1"},
                            {"TESSERA_WORLD_SIZE", "4"},
                            {"TESSERA_STORE", "unix:@tessera-00ff"},
                            {"TESSERA_RUN_TOKEN", "secret"},
                            {"TESSERA_REPORT_FD", "7"}};
const Settings kTorchrun = {{"RANK", "3"},
                            {"WORLD_SIZE", "4"},
                            {"LOCAL_RANK", "3"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"MASTER_ADDR", "node1"},
                            {"MASTER_PORT", "29500"},
                            {"TORCHELASTIC_RUN_ID", "none"}};
const Settings kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                          {"PMIX_NAMESPACE", "845217793"}};
const Settings kMpiexec = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Settings kSrun = {{"SLURM_PROCID", "5"},
                        {"SLURM_NTASKS", "6"},
                        {"SLURM_LOCALID", "5"},
                        {"SLURM_JOB_ID", "77"},
                        {"SLURM_STEP_ID", "2"}};

std::string problem(const Settings& settings) {
  return testing::error_of<ConfigError>([&] { detect(settings); });
}

TEST(Environment, NobodyStartedUs) {
  EXPECT_FALSE(detect({}));
  EXPECT_FALSE(detect({{"MASTER_ADDR", "node1"}, {"LOCAL_RANK", "0"}, {"TESSERA_RUN_TOKEN", "x"}}));
}

TEST(Environment, Launcher) {
  const auto env = detect(kLauncher);
  ASSERT_TRUE(env);
  EXPECT_EQ(env->rank, 1);
  EXPECT_EQ(env->world, 4);
  EXPECT_EQ(env->local_rank, 1);
  EXPECT_EQ(env->local_world, 4);
  EXPECT_EQ(env->store, "unix:@tessera-00ff");
  EXPECT_EQ(env->token, "secret");
  EXPECT_EQ(env->report, 7);
  EXPECT_TRUE(env->own);
}

TEST(Environment, LauncherComesBeforeAllOthers) {
  EXPECT_EQ(detect(with(kSrun, with(kMpirun, with(kTorchrun, kLauncher))))->starter, "tessera");
  EXPECT_EQ(detect(with(kSrun, with(kMpirun, kTorchrun)))->starter, "torchrun");
  EXPECT_EQ(detect(with(kSrun, kMpirun))->starter, "mpirun");
  EXPECT_EQ(detect(with(kSrun, kMpiexec))->starter, "mpiexec")
      << "it may use srun to start its own";
}

TEST(Environment, TorchrunOnOneHost) {
  const auto env = detect(kTorchrun);
  ASSERT_TRUE(env);
  EXPECT_EQ(env->rank, 3);
  EXPECT_EQ(env->world, 4);
  EXPECT_FALSE(env->own);
  EXPECT_EQ(env->report, -1);
  EXPECT_THAT(env->store, StartsWith("unix:@tessera-"));
  EXPECT_THAT(env->store, ContainsRegex("-torchrun-none-29500-0-[0-9a-f]{32}$"));
  EXPECT_THAT(env->token, MatchesRegex("[0-9a-f]{64}"));
}

// A stranger knows job, port and user; the rest of the name, and the token, come from a secret.
TEST(Environment, PlaceAndTokenFollowFromASecret) {
  const TestFolder other;
  const auto here = detect(kTorchrun);
  EXPECT_EQ(here->store, detect(with(kTorchrun, {{"RANK", "0"}, {"LOCAL_RANK", "0"}}))->store);
  const auto elsewhere = detect(with(kTorchrun, {{"XDG_RUNTIME_DIR", other.path().string()}}));
  EXPECT_NE(here->store, elsewhere->store);
  EXPECT_NE(here->token, elsewhere->token);
  const auto given = detect(with(kTorchrun, {{"TESSERA_RUN_TOKEN", "mine"}}));
  EXPECT_EQ(given->token, "mine");
  EXPECT_NE(given->store, here->store);
  EXPECT_NE(given->store, detect(with(kTorchrun, {{"TESSERA_RUN_TOKEN", "other"}}))->store);
  EXPECT_TRUE(given->secret.empty()) << "no file is made";
  const auto job = detect(with(kTorchrun, {{"TESSERA_JOB", "one"}}));
  EXPECT_NE(job->token, here->token) << "of another job";
}

TEST(Environment, RestartOfTorchrunMeetsElsewhere) {
  EXPECT_NE(detect(kTorchrun)->store,
            detect(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}}))->store);
}

TEST(Environment, TorchrunOnSeveralHosts) {
  const Settings hosts =
      with(kTorchrun, {{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"TESSERA_RUN_TOKEN", "s"}});
  const auto env = detect(hosts);
  ASSERT_TRUE(env);
  EXPECT_EQ(env->local_rank, 1);
  EXPECT_EQ(env->local_world, 2);
  EXPECT_EQ(env->store, "tcp:node1:29501") << "torchrun's store has 29500";
  EXPECT_EQ(env->token, "s");
  EXPECT_EQ(detect(without(hosts, "TORCHELASTIC_RUN_ID"))->store, "tcp:node1:29500");
  EXPECT_THAT(problem(without(hosts, "TESSERA_RUN_TOKEN")), HasSubstr("TESSERA_RUN_TOKEN"));
  EXPECT_THAT(problem(with(hosts, {{"RANK", "1\nx\"\x1b"}})),
              EndsWith("environment variable RANK=1\\nx\"\\u001B is not a whole number"));
  EXPECT_THAT(problem(with(hosts, {{"MASTER_PORT", "65535"}})), HasSubstr("MASTER_PORT=65535"));
}

TEST(Environment, VariablesByHandNeedNoLocalOnesOnLoopback) {
  const Settings by_hand = {
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "4000"}};
  const auto env = detect(by_hand);
  ASSERT_TRUE(env);
  EXPECT_EQ(env->local_world, 2);
  EXPECT_EQ(env->store, detect(with(by_hand, {{"RANK", "1"}}))->store);
  EXPECT_THAT(problem(with(by_hand, {{"MASTER_ADDR", "node1"}})), HasSubstr("LOCAL_WORLD_SIZE"));
}

TEST(Environment, MpirunOnOneHost) {
  const auto env = detect(kMpirun);
  ASSERT_TRUE(env);
  EXPECT_EQ(env->rank, 1);
  EXPECT_EQ(env->world, 2);
  EXPECT_THAT(env->store, HasSubstr("-mpirun-845217793-"));
}

TEST(Environment, MpirunOnSeveralHosts) {
  const Settings hosts =
      with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_THAT(problem(hosts), HasSubstr("MASTER_ADDR"));
  const Settings complete =
      with(hosts, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "5"}, {"TESSERA_RUN_TOKEN", "t"}});
  EXPECT_EQ(detect(complete)->store, "tcp:a:5");
}

TEST(Environment, AJobWithoutNameIsThatOfTheStarter) {
  const auto unnamed = detect(without(kMpirun, "PMIX_NAMESPACE"));
  EXPECT_THAT(unnamed->store, HasSubstr(fmt::format("-mpirun-of-{}-", getppid())));
  EXPECT_TRUE(unnamed->unnamed_job);
  EXPECT_FALSE(detect(kMpirun)->unnamed_job);
  EXPECT_FALSE(
      detect(with(without(kMpirun, "PMIX_NAMESPACE"), {{"TESSERA_JOB", "a"}}))->unnamed_job);
  const Error error = explain_absence(*unnamed, Error("nobody is there"));
  EXPECT_THAT(error.what(), StartsWith("nobody is there; mpirun gives its job no name"));
  EXPECT_THAT(error.what(), HasSubstr("set TESSERA_JOB to one text"));
  EXPECT_EQ(explain_absence(*detect(kMpirun), Error("nobody is there")).what(),
            "nobody is there; the place also depends on the secret in " + runtime().at("tessera") +
                ": where the ranks do not all see that folder, set TESSERA_RUN_TOKEN to one "
                "secret text");
  const auto with_token = detect(with(kMpirun, {{"TESSERA_RUN_TOKEN", "t"}}));
  EXPECT_STREQ(explain_absence(*with_token, Error("nobody is there")).what(), "nobody is there");
}

TEST(Environment, MpiexecOnOneHost) {
  const auto env = detect(kMpiexec);
  ASSERT_TRUE(env);
  EXPECT_EQ(env->rank, 1);
  EXPECT_EQ(env->world, 2);
  EXPECT_EQ(env->local_rank, 1);
  EXPECT_EQ(env->local_world, 2);
  EXPECT_THAT(env->store, HasSubstr(fmt::format("-mpiexec-of-{}-", getppid())));
  EXPECT_EQ(detect(with(kMpiexec, {{"TESSERA_JOB", "mine"}}))->store,
            detect(with(kMpiexec, {{"TESSERA_JOB", "mine"}, {"PMI_RANK", "0"}}))->store);
}

TEST(Environment, MpiexecOnSeveralHosts) {
  const Settings hosts = with(kMpiexec, {{"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}});
  EXPECT_THAT(problem(hosts), HasSubstr("mpiexec started 2 ranks on several hosts"));
  const Settings complete =
      with(hosts, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "5"}, {"TESSERA_RUN_TOKEN", "t"}});
  EXPECT_EQ(detect(complete)->store, "tcp:a:5");
}

TEST(Environment, PmiVariablesOfSrunAreNotMpiexecs) {
  EXPECT_EQ(detect(with(kSrun, {{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}}))->starter, "srun");
}

TEST(Environment, SrunOnOneHost) {
  const auto env = detect(kSrun);
  ASSERT_TRUE(env);
  EXPECT_EQ(env->rank, 5);
  EXPECT_EQ(env->world, 6);
  EXPECT_EQ(env->local_world, 6);
  EXPECT_THAT(env->store, HasSubstr("-srun-77-2-"));
}

TEST(Environment, SlurmScriptsAndInteractiveStepsAreNoRanks) {
  EXPECT_FALSE(detect(without(kSrun, "SLURM_STEP_ID")));
  EXPECT_FALSE(detect(with(kSrun, {{"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}})));
}

TEST(Environment, SrunOnSeveralHosts) {
  const Settings hosts = with(kSrun,
                              {{"SLURM_STEP_NUM_NODES", "2"},
                               {"SLURM_STEP_TASKS_PER_NODE", "4,2"},
                               {"SLURM_NODEID", "1"},
                               {"SLURM_LOCALID", "1"},
                               {"MASTER_ADDR", "a"},
                               {"MASTER_PORT", "5"},
                               {"TESSERA_RUN_TOKEN", "t"}});
  const auto env = detect(hosts);
  ASSERT_TRUE(env);
  EXPECT_EQ(env->local_world, 2);
  EXPECT_EQ(env->local_rank, 1);
  EXPECT_EQ(env->store, "tcp:a:5");
  EXPECT_THAT(problem(without(hosts, "SLURM_NODEID")), HasSubstr("SLURM_NODEID"));
}

TEST(Environment, HalfSetVariablesAreNamed) {
  for (const auto& [settings, names] :
       {std::pair{kLauncher,
                  Settings{{"TESSERA_RANK", ""},
                           {"TESSERA_WORLD_SIZE", ""},
                           {"TESSERA_STORE", ""},
                           {"TESSERA_RUN_TOKEN", ""}}},
        std::pair{kTorchrun,
                  Settings{{"RANK", ""},
                           {"WORLD_SIZE", ""},
                           {"LOCAL_RANK", ""},
                           {"LOCAL_WORLD_SIZE", ""},
                           {"MASTER_ADDR", ""},
                           {"MASTER_PORT", ""}}},
        std::pair{kMpirun, Settings{{"OMPI_COMM_WORLD_RANK", ""}, {"OMPI_COMM_WORLD_SIZE", ""}}},
        std::pair{kMpiexec,
                  Settings{{"PMI_RANK", ""},
                           {"PMI_SIZE", ""},
                           {"MPI_LOCALRANKID", ""},
                           {"MPI_LOCALNRANKS", ""}}},
        std::pair{kSrun,
                  Settings{{"SLURM_NTASKS", ""}, {"SLURM_LOCALID", ""}, {"SLURM_JOB_ID", ""}}}}) {
    for (const auto& [name, unused] : names) {
      EXPECT_THAT(problem(without(settings, name)), HasSubstr(name + " is not"));
    }
  }
}

TEST(Environment, ContradictionsAreNamed) {
  EXPECT_THAT(problem(with(kTorchrun, {{"RANK", "4"}})), HasSubstr("RANK=4 and WORLD_SIZE=4"));
  EXPECT_THAT(problem(with(kTorchrun, {{"LOCAL_RANK", "4"}})),
              HasSubstr("LOCAL_RANK=4 and LOCAL_WORLD_SIZE=4"));
  EXPECT_THAT(problem(with(kLauncher, {{"TESSERA_RANK", "9"}})), HasSubstr("TESSERA_RANK=9"));
  EXPECT_THAT(problem(with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "-1"}})),
              HasSubstr("OMPI_COMM_WORLD_RANK=-1"));
  EXPECT_THAT(problem(with(kTorchrun, {{"WORLD_SIZE", "two"}})), HasSubstr("WORLD_SIZE=two"));
  EXPECT_THAT(problem(with(kMpiexec, {{"PMI_RANK", "2"}})), HasSubstr("PMI_RANK=2 and PMI_SIZE=2"));
  for (const char* port : {"bla", "0", "65536", "-1"}) {
    EXPECT_THAT(problem(with(kTorchrun, {{"MASTER_PORT", port}})),
                HasSubstr(std::string("MASTER_PORT=") + port + " is "))
        << "also where all ranks are on one host, and the port is but a name";
  }
}

TEST(Environment, LocalStoreNamesAreShortAndDistinct) {
  const std::string odd(200, '/');
  const auto a = detect(with(kMpirun, {{"PMIX_NAMESPACE", odd + "a"}}))->store;
  const auto b = detect(with(kMpirun, {{"PMIX_NAMESPACE", odd + "b"}}))->store;
  EXPECT_NE(a, b);
  EXPECT_LE(a.size(), std::string("unix:@").size() + 106);
  EXPECT_EQ(a.find('/'), std::string::npos);
}

TEST(SlurmTasks, ShortForm) {
  EXPECT_EQ(slurm_tasks_of_node("4", 0), 4);
  EXPECT_EQ(slurm_tasks_of_node("4(x2),3", 1), 4);
  EXPECT_EQ(slurm_tasks_of_node("4(x2),3", 2), 3);
  EXPECT_EQ(slurm_tasks_of_node("1,12(x3),2", 3), 12);
  for (const char* wrong : {"", "x", "4(x2", "4(2)", "4,,3", "0"}) {
    EXPECT_THROW(slurm_tasks_of_node(wrong, 2), ConfigError) << wrong;
  }
  EXPECT_THROW(slurm_tasks_of_node("4(x2)", 2), ConfigError);
}

TEST(AutoThreads, SharesTheCpusOfThisProcess) {
  const i64 cpus = usable_cpus();
  EXPECT_EQ(auto_threads(1), cpus);
  EXPECT_EQ(auto_threads(cpus), 1);
  EXPECT_EQ(auto_threads(10 * cpus), 1);
  EXPECT_THROW(auto_threads(0), Error);
}

TEST(Environment, SaysByWhichVariablesAndHowToBeWithoutThem) {
  const auto srun = detect(kSrun);
  EXPECT_EQ(srun->variables,
            fmt::format("SLURM_STEP_ID={}, SLURM_PROCID=5 and SLURM_NTASKS=6",
                        kSrun.at("SLURM_STEP_ID")));
  EXPECT_EQ(srun->without_starter, "env -u SLURM_STEP_ID");
  EXPECT_EQ(detect(with(kTorchrun, {{"MASTER_ADDR", "127.0.0.1"}}))->variables,
            "RANK=3 and WORLD_SIZE=4");
  EXPECT_EQ(detect(kMpirun)->variables, "OMPI_COMM_WORLD_RANK=1 and OMPI_COMM_WORLD_SIZE=2");
  EXPECT_EQ(detect(kMpiexec)->without_starter, "env -u PMI_RANK -u PMI_SIZE");
  // A starter within another one: without both nobody has started this process.
  Settings both = with(kSrun, kMpirun);
  const auto inner = detect(both);
  EXPECT_EQ(inner->starter, "mpirun");
  EXPECT_EQ(inner->without_starter,
            "env -u OMPI_COMM_WORLD_RANK -u OMPI_COMM_WORLD_SIZE -u SLURM_STEP_ID");
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_ID"}) {
    both.erase(name);
  }
  EXPECT_FALSE(detect(both));
  EXPECT_EQ(detect(kLauncher)->without_starter, "") << "our launcher watches its ranks itself";
}

}  // namespace environment_test
}  // namespace tessera
