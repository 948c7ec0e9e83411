#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "common/test_folder.hpp"
#include "train_support.hpp"

namespace tessera {
namespace launcher_test {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::TestFolder;

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename());
  }
  return names;
}

std::string local_sockets() { return testing::read_file("/proc/net/unix"); }

// Runs the probe in an empty folder of its own and looks for what it leaves behind.
class Launcher : public ::testing::Test {
 protected:
  void SetUp() override {
    options_ = {.environment = {{"TMPDIR", folder_}, {"TESSERA_TEST_MARK", folder_}},
                .folder = folder_};
  }
  void TearDown() override {
    EXPECT_THAT(survivors_with("TESSERA_TEST_MARK=" + folder_), IsEmpty());
    EXPECT_THAT(names_in(folder_), IsEmpty());
  }

  static std::vector<std::string> command(const std::vector<std::string>& arguments) {
    std::vector<std::string> list = {TESSERA_BUILD_DIR "/tests/launch_probe"};
    list.insert(list.end(), arguments.begin(), arguments.end());
    return list;
  }
  ProcessResult run(const std::vector<std::string>& arguments) const {
    return run_process(command(arguments), options_);
  }
  std::size_t processes() const { return processes_with("TESSERA_TEST_MARK=" + folder_).size(); }

  const TestFolder own_;
  const std::string folder_ = own_.path().string();
  ProcessOptions options_;
};

TEST_F(Launcher, AllRanksEndWell) {
  const auto result = run({"3", "works"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, EndsWith("rank 0 is done\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("rank 1"))) << "only rank 0 has the standard output";
  EXPECT_THAT(result.err, HasSubstr("[rank 1] rank 1 is done\n"));
  EXPECT_THAT(result.err, HasSubstr("[rank 2] rank 2 is done\n"));
}

TEST_F(Launcher, TheFailingRanksMessageComesLastAndOnce) {
  const auto result = run({"4", "fails", "2"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.last_error(), "[rank 2] the disk is full");
  EXPECT_EQ(result.err.find("the disk is full"), result.err.rfind("the disk is full"));
}

TEST_F(Launcher, RejectedConfigurationIsExitCodeTwo) {
  const auto one = run({"2", "rejects", "1"});
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_EQ(one.last_error(), "[rank 1] no such device");
  const auto all = run({"3", "all_reject"});
  EXPECT_EQ(all.exit_code, 2);
  EXPECT_EQ(all.err, "unknown key \"betta\"\n");
}

TEST_F(Launcher, AKilledRankIsNamed) {
  const auto result = run({"3", "is_killed", "1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.last_error(), "rank 1 was killed by signal 9 (Killed)");
}

TEST_F(Launcher, ARankThatAbortsIsNamed) {
  const auto result = run({"2", "aborts", "0"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.last_error(), "rank 0 was killed by signal 6 (Aborted)");
}

TEST_F(Launcher, ARankThatEndsWithoutReportIsQuoted) {
  const auto result = run({"3", "exits", "2"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.last_error(), "rank 2 ended with exit code 3; its last line: no license");
}

TEST_F(Launcher, ARankThatLeavesEarlyIsMissed) {
  const auto result = run({"3", "leaves", "1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.last_error(), HasSubstr("rank 1"));
}

TEST_F(Launcher, ARankThatIsStoppedAfterTheOthersEndedIsNamed) {
  const auto result = run({"3", "stops", "1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.last_error(), HasSubstr("rank 1 is stopped (by SIGSTOP or a debugger)"));
}

// A process within is in state D, and SIGKILL waits until it is let go. Only version 1 of control
// groups does that; others find no place here.
class Freezer {
 public:
  Freezer() {
    std::error_code error;
    made_ = std::filesystem::exists("/sys/fs/cgroup/freezer/cgroup.procs", error) &&
            std::filesystem::create_directory(folder_, error);
  }
  ~Freezer() {
    if (!made_) return;
    write("freezer.state", "THAWED");
    for (int i = 0; i < 1000 && rmdir(folder_.c_str()) != 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;
  bool works() const { return made_; }
  bool freeze(pid_t pid) const {
    return write("cgroup.procs", std::to_string(pid)) && write("freezer.state", "FROZEN");
  }

 private:
  bool write(const std::string& name, const std::string& text) const {
    return static_cast<bool>(std::ofstream(folder_ + "/" + name) << text << std::flush);
  }
  const std::string folder_ = "/sys/fs/cgroup/freezer/tessera_test_" + std::to_string(getpid());
  bool made_ = false;
};

TEST_F(Launcher, ARankThatSigkillDoesNotEndIsNamedAndLeftBehind) {
  const Freezer freezer;
  if (!freezer.works()) GTEST_SKIP() << "this system cannot make a process deaf to SIGKILL";
  const testing::TinyRun run;
  std::vector<std::string> command = run.command(
      testing::TinyRun::steps(1000000, "run", {"parallel.data=2", "comm.timeout_s=12"}));
  command.insert(command.end(), {"--restarts", "1"});
  Process process(command, run.options());
  ASSERT_TRUE(process.shows("step", 5)) << process.err();
  ASSERT_TRUE(freezer.freeze(testing::rank_process(run.mark(), 1)));
  const ProcessResult result = process.wait();
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("rank 1 has not ended 2 s after SIGKILL: process "));
  EXPECT_THAT(result.err, HasSubstr("no restart: rank 1 is still there\n"));
  EXPECT_THAT(result.last_error(),
              ::testing::ContainsRegex("^rank 1 does not end, and SIGKILL has no effect: process "
                                       "[0-9]+ is in state D \\(no signal reaches it\\)"));
}

TEST_F(Launcher, RanksThatDoNotListenAreKilled) {
  const auto result = run({"3", "fails_alone", "0"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.last_error(), "[rank 0] the disk is full");
  EXPECT_GT(result.seconds, 4);
}

TEST_F(Launcher, AllLinesArriveWhole) {
  const auto result = run({"2", "chats"});
  EXPECT_EQ(result.exit_code, 0);
  for (const int rank : {0, 1}) {
    const std::string number = std::to_string(rank);
    EXPECT_THAT(result.err, HasSubstr("[rank " + number + "] warning 0 of rank " + number + "\n"));
    EXPECT_THAT(result.err, HasSubstr("[rank " + number + "] unfinished\n"));
  }
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 5001);
  // Rank 1's lines of both kinds, rank 0's warnings, and an unfinished line each.
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 15002);
  EXPECT_EQ(result.err.find("\n["), result.err.find('\n'));
}

TEST_F(Launcher, AnInterruptStopsAllRanksInGoodOrder) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    Process process(command({"3", "steps"}), options_);
    ASSERT_TRUE(process.shows("ready 0") && process.shows("ready 1") && process.shows("ready 2"));
    process.send(signal);
    const auto result = process.wait();
    EXPECT_EQ(result.exit_code, 3) << "signal " << result.signal << ", " << result.err;
    EXPECT_THAT(result.out, EndsWith("saved 0\n"));
    EXPECT_THAT(result.err, HasSubstr("[rank 2] saved 2\n"));
  }
}

TEST_F(Launcher, TheSecondInterruptKills) {
  Process process(command({"2", "ignores"}), options_);
  ASSERT_TRUE(process.shows("ready 0") && process.shows("ready 1"));
  process.send(SIGINT);
  ASSERT_TRUE(process.shows("interrupt again to end at once"));
  EXPECT_EQ(processes(), 3U) << "the first one must not kill";
  std::this_thread::sleep_for(std::chrono::milliseconds(600));  // sooner it would be the same one
  process.send(SIGINT);
  const auto result = process.wait();
  EXPECT_EQ(result.exit_code, 130);
}

TEST_F(Launcher, AnInterruptBeforeRanksCanStopEndsThem) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    Process process(command({"2", "sleeps"}), options_);
    ASSERT_TRUE(process.shows("ready 0") && process.shows("ready 1"));
    process.send(signal);
    const auto result = process.wait();
    EXPECT_EQ(result.exit_code, 128 + signal);
    EXPECT_THAT(result.err, Not(HasSubstr("killed"))) << "it is what was asked for";
  }
}

TEST_F(Launcher, NothingSurvivesAKilledLauncher) {
  Process process(command({"3", "ignores"}), options_);
  ASSERT_TRUE(process.shows("ready 0") && process.shows("ready 1") && process.shows("ready 2"));
  EXPECT_EQ(processes(), 4U);
  const std::string out = process.out();
  const std::size_t name = out.find("unix:@") + 5;
  const std::string socket = out.substr(name, out.find('\n', name) - name);
  EXPECT_THAT(local_sockets(), HasSubstr(socket));
  process.send(SIGKILL);
  const auto ended = process.wait();
  EXPECT_FALSE(ended.timed_out);  // that would be a SIGKILL, too
  EXPECT_EQ(ended.signal, SIGKILL);
  EXPECT_THAT(survivors_with("TESSERA_TEST_MARK=" + folder_), IsEmpty());
  EXPECT_THAT(local_sockets(), Not(HasSubstr(socket)));
}

TEST_F(Launcher, WhatRanksStartedEndsWithThem) {
  const auto result = run({"2", "leaves_a_child"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

// Other starters: the same program, as they would start it.

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  close(socket);
  return ntohs(address.sin_port);
}

TEST_F(Launcher, RanksJoinUnderTorchrunsVariables) {
  const std::string port = std::to_string(free_port());
  std::vector<std::unique_ptr<Process>> ranks;
  for (const int rank : {1, 2, 0}) {
    ProcessOptions options = options_;
    options.environment["RANK"] = options.environment["LOCAL_RANK"] = std::to_string(rank);
    options.environment["WORLD_SIZE"] = options.environment["LOCAL_WORLD_SIZE"] = "3";
    options.environment["MASTER_ADDR"] = "127.0.0.1";
    options.environment["MASTER_PORT"] = port;
    ranks.push_back(std::make_unique<Process>(command({"3", "works"}), options));
  }
  for (const auto& rank : ranks) {
    const auto result = rank->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("is done"));
  }
}

TEST_F(Launcher, RanksOfSeveralHostsMeetByTcpAndProveTheToken) {
  ProcessOptions options = options_;
  options.environment["WORLD_SIZE"] = "2";
  options.environment["LOCAL_RANK"] = "0";
  options.environment["LOCAL_WORLD_SIZE"] = "1";
  options.environment["MASTER_ADDR"] = "127.0.0.1";
  options.environment["MASTER_PORT"] = std::to_string(free_port());
  const auto start = [&](const char* rank, const char* token) {
    options.environment["RANK"] = rank;
    options.environment["TESSERA_RUN_TOKEN"] = token;
    return std::make_unique<Process>(command({"2", "works"}), options);
  };
  const auto host = start("0", "secret");
  const auto stranger = start("1", "guess")->wait();
  EXPECT_EQ(stranger.exit_code, 1);
  EXPECT_THAT(stranger.last_error(), HasSubstr("token"));
  EXPECT_EQ(start("1", "secret")->wait().exit_code, 0);
  const auto result = host->wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(Launcher, RanksJoinUnderMpirunsVariables) {
  std::vector<std::unique_ptr<Process>> ranks;
  for (const int rank : {1, 0}) {
    ProcessOptions options = options_;
    for (const char* prefix : {"OMPI_COMM_WORLD_", "OMPI_COMM_WORLD_LOCAL_"}) {
      options.environment[std::string(prefix) + "RANK"] = std::to_string(rank);
      options.environment[std::string(prefix) + "SIZE"] = "2";
    }
    ranks.push_back(std::make_unique<Process>(command({"2", "works"}), options));
  }
  for (const auto& rank : ranks) {
    const auto result = rank->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
}

TEST_F(Launcher, HalfSetVariablesAreAnError) {
  ProcessOptions options = options_;
  options.environment["RANK"] = "0";
  const auto result = run_process(command({"2", "works"}), options);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.last_error(), HasSubstr("WORLD_SIZE is not"));
}

}  // namespace launcher_test
}  // namespace tessera
