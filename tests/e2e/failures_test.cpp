// What a user reads when a run dies: the rank, the component, the limit; last and in a few lines.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <thread>

#include "train_support.hpp"

namespace tessera::testing {
namespace failures_test {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

int lines(const std::string& text) { return static_cast<int>(std::ranges::count(text, '\n')); }

// A training whose last norm fails as `how` says, after some steps.
class Failures : public ::testing::Test {
 protected:
  std::vector<std::string> broken(const std::string& how,
                                  std::vector<std::string> more = {}) const {
    more.insert(
        more.begin(),
        {broken_plugins(), "model.head.norm.type=test_broken_norm", "model.head.norm.how=" + how});
    return TinyRun::steps(2000, "run", more);
  }
  // A short training under a limit as the shell's `ulimit` takes it.
  ProcessResult under_limit(const std::string& limit, const std::vector<std::string>& sets) const {
    const std::vector<std::string> steps = TinyRun::steps(5, "run", sets);
    return run_process(run_.command_after("ulimit " + limit, steps, "bash"), run_.options());
  }
  const TinyRun run_;
};

// Campaigns, of one trial of each kind, that differ in the value of one option. They run at once,
// because they mostly wait. All trials are right.
void expect_named(const std::string& option,
                  const std::vector<std::string>& values,
                  const std::vector<std::string>& more,
                  const std::string& count) {
  std::vector<std::unique_ptr<Process>> campaigns;
  for (const std::string& value : values) {
    std::vector<std::string> command = {
        "python3", TESSERA_SOURCE_DIR "/tests/e2e/frozen_ranks.py", "--build", TESSERA_BUILD_DIR};
    command.insert(command.end(), {"--trials", "1", "--timeout", "3", "--least", "1"});
    command.insert(command.end(), {option, value});
    command.insert(command.end(), more.begin(), more.end());
    campaigns.push_back(std::make_unique<Process>(command));
  }
  for (const auto& campaign : campaigns) {
    EXPECT_THAT(campaign->wait(),
                Prints(0, count + " of " + count + " trials named the frozen rank"));
  }
}

TEST_F(Failures, TheRankThatIsFrozenIsNamed) {
  expect_named("--starters", {"ours", "each"}, {"--layouts", "tp2", "tp2_pp2"}, "4");
}

TEST_F(Failures, ARankThatIsFrozenWhileItStartsIsNamed) {
  expect_named("--starters",
               {"ours", "each"},
               {"--when", "start", "--init-timeout", "8", "--layouts", "dp2", "tp2_pp2"},
               "4");
}

// Ranks that wait for it stand still, too, and are not to blame.
TEST_F(Failures, ARankThatNeverComesIsNamed) {
  expect_named("--rank",
               {"0", "1", "3"},
               {"--when",
                "absent",
                "--init-timeout",
                "6",
                "--layouts",
                "tp2_dp2",
                "--starters",
                "each",
                "--communicators",
                "shm"},
               "1");
}

// A save may take minutes: it is the rank's pulse that is missed, not the rank.
TEST_F(Failures, ARankThatFreezesWithinASaveIsNamed) {
  for (const char* asynchronous : {"false", "true"}) {
    EXPECT_THAT(
        run_.train(TinyRun::steps(2000,
                                  "run",
                                  {broken_plugins(),
                                   "observers.test_freezing={}",
                                   "parallel.data=2",
                                   "comm.timeout_s=2",
                                   "checkpoint.every_steps=5",
                                   std::string("checkpoint.asynchronous=") + asynchronous})),
        EndsOn(1, StartsWith("rank 0 is stopped (by SIGSTOP or a debugger)")));
  }
  EXPECT_THAT(run_.survivors(), IsEmpty());
}

// A shell's Ctrl-Z reaches the launcher alone: its ranks are in groups of their own.
TEST_F(Failures, CtrlZStopsTheRanksToo) {
  std::vector<std::string> command =
      run_.command(TinyRun::steps(1000000, "run", {"parallel.tensor=2"}));
  command.insert(command.end(), {"--restarts", "1"});
  Process run(command, run_.options());
  ASSERT_TRUE(run.shows("step", 5)) << run.err();
  const std::vector<pid_t> all = {
      run.pid(), rank_process(run_.mark(), 0), rank_process(run_.mark(), 1)};
  const auto stopped = [](pid_t pid) {
    const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
    return stat.find(") T ") != std::string::npos;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  run.send(SIGTSTP);
  while (!std::ranges::all_of(all, stopped) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(std::ranges::all_of(all, stopped));
  const int told = lines(run.out());
  run.send(SIGCONT);
  EXPECT_TRUE(run.shows("\n", told + 20)) << run.err();
  kill(rank_process(run_.mark(), 1), SIGKILL);  // the ranks of a restart are not suspended again
  EXPECT_TRUE(run.shows("restart 1 of 1")) << run.err();
  EXPECT_TRUE(run.shows("\n", lines(run.out()) + 20)) << run.err();
  run.send(SIGTERM);
  EXPECT_EQ(run.wait().exit_code, 3) << run.err();
}

// A batch system takes the processors for another job.
TEST_F(Failures, AJobThatIsSuspendedGoesOn) {
  struct Job {
    explicit Job(const std::string& communicator)
        : run(tiny.command(TinyRun::steps(
                  1000000,
                  "run",
                  {"parallel.tensor=2", "comm.timeout_s=2", "comm.type=" + communicator})),
              tiny.options()) {}
    void send(int signal) const {
      for (const int rank : {0, 1}) kill(rank_process(tiny.mark(), rank), signal);
    }
    TinyRun tiny;
    Process run;
  };
  Job shm("shm"), gloo("gloo");
  for (Job* job : {&shm, &gloo}) {
    ASSERT_TRUE(job->run.shows("step", 5)) << job->run.err();
    job->send(SIGSTOP);
  }
  for (Job* job : {&shm, &gloo}) {
    EXPECT_TRUE(job->run.shows("all ranks are stopped (by SIGSTOP or a debugger)"));
    job->send(SIGCONT);
    EXPECT_TRUE(job->run.shows("\n", lines(job->run.out()) + 20)) << job->run.err();
    job->run.send(SIGTERM);
    EXPECT_EQ(job->run.wait().exit_code, 3) << job->run.err();
    EXPECT_THAT(job->tiny.survivors(), IsEmpty());
  }
}

// The others say what they did last, and of one that cannot the launcher says where it was.
TEST_F(Failures, TheRecordsNameARankThatLeftNone) {
  Process run(run_.command(TinyRun::steps(1000000, "run", {"parallel.data=2", "comm.timeout_s=2"})),
              run_.options());
  ASSERT_TRUE(run.shows("step", 5)) << run.err();
  kill(rank_process(run_.mark(), 1), SIGSTOP);
  EXPECT_EQ(run.wait().exit_code, 1);
  EXPECT_THAT(read_file(run_.at("run/flight_records.txt")),
              AllOf(HasSubstr(" rank 0 fails: "),
                    HasSubstr("all_reduce"),
                    ContainsRegex("rank 1 left no record; in step [0-9]+ it ended so: .*\n"
                                  "  it began .*\n")));
}

TEST_F(Failures, ARankThatLoopsIsNamed) {
  for (const char* communicator : {"shm", "gloo"}) {
    EXPECT_THAT(run_.train(broken("spin",
                                  {"parallel.tensor=2",
                                   "model.head.norm.rank=1",
                                   "comm.timeout_s=2",
                                   std::string("comm.type=") + communicator})),
                EndsOn(1, "rank 1 neither reports nor moves: its process lives and waits for no"));
  }
  EXPECT_THAT(run_.survivors(), IsEmpty());
}

TEST_F(Failures, TheCauseComesLastInAFewLinesAndTheRecordsAreInAFile) {
  const ProcessResult result = run_.train(
      broken("throw",
             {"parallel.tensor=2", "parallel.data=2", "model.head.norm.rank=2", "comm.type=gloo"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_LT(lines(result.err), 10) << result.err;
  const std::size_t cause = result.err.find("[rank 2] it broke\n");
  ASSERT_NE(cause, std::string::npos) << result.err;
  EXPECT_THAT(result.last_error(),
              HasSubstr("  in module/test_broken_norm (forward pass) of plugin test_broken 0.1.0"));
  const std::string file = run_.at("run/flight_records.txt");
  const std::size_t named = result.err.find("what each rank did last: " + file);
  EXPECT_LT(named, cause) << result.err;
  EXPECT_THAT(read_file(file),
              AllOf(HasSubstr(" rank 2 fails: it broke"), HasSubstr("all_reduce")));
}

TEST_F(Failures, TheRecordsSayWhichWholeStepWasReplayed) {
  EXPECT_THAT(run_.train(broken(
                  "later_throw",
                  {"parallel.tensor=2", "model.head.norm.rank=1", "graph.type=full_iteration"})),
              EndsOn(1, "operation \"test_later_operation\""));
  EXPECT_THAT(read_file(run_.at("run/flight_records.txt")),
              AllOf(HasSubstr(" rank 0 fails in whole step 3, replayed: "),
                    HasSubstr(" rank 1 fails in whole step 3, replayed: ")));
}

// What the failed step keeps for its backward pass lies in the memory of graphs.
TEST_F(Failures, AThrowBesideReplayedPhasesIsAnErrorAndNoCrash) {
  for (const std::string ranks : {"1", "2"}) {
    EXPECT_THAT(
        run_.train(broken(
            "later_throw",
            {"parallel.data=" + ranks, "graph.type=partial", "graph.scope=[\"attn\", \"mlp\"]"})),
        Exits(1, "it broke", Not(HasSubstr("crashed"))));
  }
}

// What the processor finds, in each kind of code that a component has. Endless recursion leaves no
// stack for the handler, which has one of its own.
TEST_F(Failures, ACrashThatNobodyRaisedIsNamed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers find these themselves, and tell of them in their words";
#elif !defined(__x86_64__)
  GTEST_SKIP() << "not every processor stops at a division by zero";
#endif
  const std::vector<std::string> forward = {
      "in module/test_broken_norm of plugin test_broken 0.1.0 \"forward pass\"",
      "in the forward pass of layer \"head\""};
  const std::tuple<std::string, std::string, std::vector<std::string>> kPlaces[] = {
      {"a forward pass", "model.head.norm.rank=0", forward},
      {"an operation",
       "model.head.norm.operation=true",
       {"in operation \"test_broken_operation\", " + forward[0], forward[1]}},
      {"a backward pass",
       "model.head.norm.backward=true",
       {"in the backward pass of \"broken_copy\", in module/test_broken_norm of plugin "
        "test_broken 0.1.0 \"backward pass\"",
        "in the backward pass of layer \"head\""}}};
  const std::pair<const char*, int> kFaults[] = {
      {"null_read", SIGSEGV}, {"divide", SIGFPE}, {"recurse", SIGSEGV}};
  for (const auto& [how, signal] : kFaults) {
    for (const auto& [place, set, names] : kPlaces) {
      SCOPED_TRACE(std::string(how) + " in " + place);
      const ProcessResult result = under_limit("-s 8192", broken(how, {set}));
      EXPECT_EQ(result.signal, signal) << result.err;
      EXPECT_THAT(result.last_error(),
                  AllOf(StartsWith(std::string("crashed by SIG") + sigabbrev_np(signal)),
                        HasSubstr(names[0]),
                        HasSubstr(names[1]),
                        HasSubstr("libtessera_test_broken.so was running, at 0x"),
                        ContainsRegex(" in _Z[A-Za-z0-9_]*(fail_by|fault_by|endless)")));
    }
  }
  // The rank tells it, and the launcher passes it on.
  EXPECT_THAT(
      under_limit("-s 8192", broken("recurse", {"parallel.data=2", "model.head.norm.rank=1"})),
      EndsOn(1, "rank 1 was killed by signal 11", forward[0]));
  EXPECT_THAT(run_.survivors(), IsEmpty());
}

// In one process nobody watches it from outside.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(Failures, ACrashNamesPluginComponentOperationAndPhase) {
  const std::pair<const char*, int> kCrashes[] = {
      {"segv", SIGSEGV}, {"ill", SIGILL}, {"fpe", SIGFPE}, {"abort", SIGABRT}};
  for (const auto& [how, signal] : kCrashes) {
    const ProcessResult result = run_.train(broken(how));
    EXPECT_EQ(result.signal, signal) << result.err;
    EXPECT_THAT(result.last_error(),
                AllOf(StartsWith(std::string("crashed by SIG") + sigabbrev_np(signal)),
                      HasSubstr("in module/test_broken_norm of plugin test_broken 0.1.0 \"forward"),
                      HasSubstr("in the forward pass of layer \"head\""),
                      ContainsRegex("libtessera_test_broken.so was running, at 0x[0-9a-f]+ in "
                                    "_Z[A-Za-z0-9_]*fail_by")));
  }
  const ProcessResult backward = run_.train(broken("segv", {"model.head.norm.backward=true"}));
  EXPECT_EQ(backward.signal, SIGSEGV);
  EXPECT_THAT(backward.last_error(),
              AllOf(HasSubstr("in the backward pass of \"broken_copy\", in module/test_broken_norm "
                              "of plugin test_broken 0.1.0 \"backward pass\""),
                    HasSubstr("in the backward pass of layer \"head\""),
                    HasSubstr("libtessera_test_broken.so was running")));
  const ProcessResult operation = run_.train(broken("segv", {"model.head.norm.operation=true"}));
  EXPECT_EQ(operation.signal, SIGSEGV);
  EXPECT_THAT(operation.last_error(), HasSubstr("in operation \"test_broken_operation\", in "));
  const ProcessResult destructor = run_.train(broken("destructor"));
  EXPECT_EQ(destructor.signal, SIGSEGV);
  EXPECT_THAT(destructor.last_error(),
              HasSubstr("in module/test_broken_norm of plugin test_broken 0.1.0 \"destructor\""));
}

// Nobody is told of the actions of a replay, but of its step.
TEST_F(Failures, ACrashInAReplayOfAWholeStepNamesTheStep) {
  const ProcessResult result = run_.train(broken("later_segv", {"graph.type=full_iteration"}));
  EXPECT_EQ(result.signal, SIGSEGV) << result.err;
  EXPECT_THAT(result.last_error(),
              AllOf(HasSubstr("in operation \"test_later_operation\""),
                    HasSubstr("in the replay of whole step \"3\"")));
}

TEST_F(Failures, AComponentThatEndsTheProcessIsNamed) {
  for (const char* how : {"exit", "_exit", "quick_exit"}) {
    const ProcessResult result = run_.train(broken(how));
    EXPECT_EQ(result.exit_code, 1) << "not 0: the run is not done";
    const std::string call = how + std::string(how == std::string("quick_exit") ? "" : "(0)");
    EXPECT_THAT(result.last_error(),
                AllOf(StartsWith("the process was ended by " + call + " in module/"),
                      HasSubstr("libtessera_test_broken.so was running")));
  }
}

TEST_F(Failures, ACrashOfOneRankAmongSeveralIsNamedLast) {
  EXPECT_THAT(run_.train(broken("segv", {"parallel.data=2", "model.head.norm.rank=1"})),
              EndsOn(1,
                     "rank 1 was killed by signal 11",
                     "module/test_broken_norm of plugin test_broken 0.1.0"));
}

TEST_F(Failures, LimitsAreNamedWithTheirValues) {
  const auto limited = [&](const std::string& limit, const std::vector<std::string>& sets) {
    const ProcessResult result = under_limit(limit, sets);
    EXPECT_NE(result.exit_code, 0) << result.err;
    return result.last_error();
  };
  EXPECT_THAT(limited("-v 400000", {"model.hidden=3072", "model.layers=6"}),
              HasSubstr("the limit of virtual memory (ulimit -v) is 0.38 GiB"));
  EXPECT_THAT(
      limited("-v 500000", {"device.threads=64"}),
      AllOf(HasSubstr("this process cannot have 64 threads (device.threads) and 2 of its own, "),
            HasSubstr("the limit of virtual memory (ulimit -v) is 0.48 GiB")));
  EXPECT_THAT(
      limited("-n 16", {"parallel.data=4"}),
      HasSubstr("4 ranks, may need 64 open files, but the limit of open files (ulimit -n) is 16"));
  EXPECT_THAT(limited("-f 60", {"parallel.data=2", "comm.type=shm"}),
              HasSubstr("; the limit of the size of a file (ulimit -f) is 60 KiB"));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // theirs take more of it
  EXPECT_EQ(
      limited("-s 64", {}),
      "the limit of the stack (ulimit -s) is 64 KiB, and this program needs 512 KiB: raise it "
      "(ulimit -s 8192)");
#endif
}

// The system lets its administrator have any number, so another user trains.
TEST_F(Failures, WhereverThreadsEndTheLimitIsNamed) {
  std::filesystem::permissions(run_.at(""), std::filesystem::perms::all);
  const auto limited = [&](const std::string& limit,
                           const std::string& ranks,
                           const std::string& threads) {
    std::vector<std::string> command = {"setpriv", "--reuid", "65533", "--clear-groups", "bash"};
    command.insert(command.end(), {"-c", "ulimit -u " + limit + "; exec \"$@\"", "bash"});
    const std::vector<std::string> train =
        run_.command(TinyRun::steps(5,
                                    "of_" + limit + "_" + ranks + "_" + threads,
                                    {"parallel.data=" + ranks, "device.threads=" + threads}));
    command.insert(command.end(), train.begin(), train.end());
    return run_process(command, run_.options());
  };
  if (limited("unlimited", "1", "1").exit_code != 0) {
    GTEST_SKIP() << "no other user can train here";
  }
  struct Case {
    const char *ranks, *threads;
    int least;  // number of limits that are too low
  };
  for (const auto& [ranks, threads, least] : {Case{"1", "1", 2}, {"1", "3", 4}, {"4", "1", 10}}) {
    int failed = 0;
    for (bool enough = false; !enough;) {
      const std::string limit = std::to_string(failed + 1);
      SCOPED_TRACE(std::string(ranks) + " ranks of threads: " + threads + ", limit: " + limit);
      ASSERT_LT(failed, 60) << "never enough";
      const ProcessResult result = limited(limit, ranks, threads);
      enough = result.exit_code == 0;
      if (enough) continue;
      ++failed;
      EXPECT_THAT(result.last_error(), HasSubstr("this user (ulimit -u) is " + limit));
    }
    EXPECT_GE(failed, least);
  }
  EXPECT_THAT(run_.survivors(), IsEmpty());
}

// Whatever comes to want memory: the loader, a thread, the allocator, a library that makes code.
TEST_F(Failures, WhereverVirtualMemoryEndsTheLimitIsNamed) {
  int failed = 0;
  bool enough = false;
  for (int limit = 20000; !enough; limit += 1000) {
    ASSERT_LT(limit, 1000000) << "never enough";
    const ProcessResult result = under_limit("-v " + std::to_string(limit), {"run.out=limited"});
    enough = result.exit_code == 0;
    if (enough) continue;
    ++failed;
    EXPECT_THAT(result.err, HasSubstr("the limit of virtual memory (ulimit -v) is ")) << limit;
  }
  EXPECT_GT(failed, 3);
}
#endif

TEST_F(Failures, AnExceptionOfAKernelNamesItAndWhatLaunchedIt) {
  for (const char* graph : {"none", "full_iteration"}) {
    const ProcessResult result =
        run_.train(broken("later_throw", {std::string("graph.type=") + graph}));
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_THAT(result.err,
                HasSubstr("it broke\n  in a kernel of libtessera_test_broken.so 0.1.0, operation "
                          "\"test_later_operation\""));
    if (graph == std::string("none")) {
      EXPECT_THAT(result.err, HasSubstr("in module/test_broken_norm (forward pass) of plugin "));
    }
  }
  EXPECT_THAT(run_.train(broken("throw_int", {"model.head.norm.operation=true"})).err,
              HasSubstr("an exception that is not a std::exception\n  in a kernel of "));
}

TEST_F(Failures, AnExceptionOfACommunicatorIsNamed) {
  for (const std::string call : {"create_group", "start", "wait", "finish"}) {
    const ProcessResult result = run_.train(
        broken("no", {"parallel.tensor=2", "comm.type=test_broken_comm", "comm.how=" + call}));
    EXPECT_EQ(result.exit_code, 1) << result.err;
    const std::string who =
        "\n  in communicator/test_broken_comm (" + call + ") of plugin test_bro";
    EXPECT_THAT(result.err, HasSubstr("it broke" + who));
    EXPECT_THAT(result.err, Not(HasSubstr("in layer/"))) << "it waits inside of a layer";
  }
}

TEST_F(Failures, AnExceptionOfALearningRateIsNamed) {
  EXPECT_THAT(run_.train(TinyRun::steps(2000, "run", {broken_plugins(), "lr.type=test_broken_lr"})),
              Exits(::testing::Ne(0),
                    "it broke\n  in lr/test_broken_lr (rate) of plugin test_broken 0.1.0 (",
                    "), configured at --set #",
                    ": [lr]"));
}

TEST_F(Failures, AnAddressThatIsNoneIsAnError) {
  EXPECT_THAT(run_.train(TinyRun::steps(
                  5, "run", {"parallel.data=2", "comm.type=gloo", "comm.bind=nohost.invalid"})),
              Exits(::testing::Ne(0),
                    "cannot listen on nohost.invalid: ",
                    "set comm.bind or",
                    Not(HasSubstr("SIGSEGV"))));
}

TEST_F(Failures, ALearningRateThatIsNoneIsNamedBeforeTheRun) {
  EXPECT_THAT(run_.train(TinyRun::steps(
                  20, "run", {broken_plugins(), "lr.type=test_broken_lr", "lr.how=negative"})),
              Exits(2,
                    "the rate of update 1 is -0.001; it has to be finite and not negative\n"
                    "  in lr/test_broken_lr (rate) of plugin test_broken 0.1.0 ("));
}

TEST_F(Failures, ParametersThatGetNoGradientAreNamed) {
  EXPECT_THAT(run_.train(broken("unrecorded", {"run.steps=3"})),
              Exits(0,
                    "no backward pass gives \"embedding.position\" a gradient, so it "
                    "learns nothing: an operation is not recorded on the tape",
                    " more a gradient, so they learn nothing"));
  EXPECT_THAT(run_.train(broken("no", {"run.steps=3", "run.out=right"})),
              Exits(0, Not(HasSubstr("no backward pass"))));
}

}  // namespace failures_test
}  // namespace tessera::testing
