#include "kernel/launch/failure.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>

#include "kernel/launch/signals.hpp"

namespace tessera {
namespace failure_test {

using ::testing::ElementsAre;

RankEnd ended(i64 rank, int exit_code, i64 noticed) {
  return {.rank = rank, .exit_code = exit_code, .noticed = noticed};
}

RankEnd killed(i64 rank, int signal, i64 noticed) {
  return {.rank = rank, .signal = signal, .noticed = noticed};
}

RankEnd reported(i64 rank,
                 const std::string& text,
                 i64 noticed,
                 i64 time = 0,
                 ErrorKind kind = ErrorKind::own,
                 i64 of_rank = Error::kNoRank) {
  return {.rank = rank,
          .report = FailureReport{Error(text, kind, of_rank), time},
          .exit_code = 1,
          .noticed = noticed};
}

i64 cause(const std::vector<RankEnd>& ends) {
  const RankEnd* found = find_cause(ends);
  return found != nullptr ? found->rank : -1;
}

TEST(Failure, ACrashAfterAStopInGoodOrderHasItsOwnWords) {
  RankEnd crashed = killed(1, SIGSEGV, 1);
  crashed.report = FailureReport{Error("stopped", ErrorKind::interrupted), 1};
  const char* text = "rank 1 was killed by signal 11 (Segmentation fault)";
  EXPECT_THAT(failure_lines({crashed}), ElementsAre(text));

  RankEnd other = crashed;
  other.rank = 0;
  EXPECT_THAT(failure_lines({other, crashed}),
              ElementsAre(text, "rank 0 was killed by signal 11 (Segmentation fault)"));

  RankEnd lingers = other;
  lingers.signal = SIGKILL;
  lingers.stopped_by_us = true;
  EXPECT_THAT(failure_lines({lingers, crashed}), ElementsAre(text));
}

TEST(Failure, ReportsTravel) {
  ConfigError error("two\nlines");
  error.add(ErrorFrame::Kind::place, "run.toml:3:1: [lr]");
  const FailureReport report{error, 123456789012};
  const std::string bytes = encode(report);
  const auto back = decode(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->error.kind(), ErrorKind::configuration);
  EXPECT_TRUE(back->error.has(ErrorFrame::Kind::place));
  EXPECT_EQ(back->time_ns, 123456789012);
  EXPECT_STREQ(back->error.what(), "run.toml:3:1: [lr]: two\nlines");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode(std::string_view(bytes).substr(0, size))) << size;
  }
}

TEST(Failure, ReportGoesThroughADescriptor) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_TRUE(report_failure(ends[1], Error("out of memory")));
  char buffer[200];
  const ssize_t count = read(ends[0], buffer, sizeof buffer);
  ASSERT_GT(count, 0);
  const auto report = decode({buffer, static_cast<std::size_t>(count)});
  ASSERT_TRUE(report);
  EXPECT_STREQ(report->error.what(), "out of memory");
  EXPECT_GT(report->time_ns, 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(Failure, NobodyListens) {
  EXPECT_FALSE(report_failure(-1, Error("lost")));
  EXPECT_FALSE(report_failure(1 << 20, Error("lost")));
}

TEST(Failure, AllWentWell) {
  EXPECT_EQ(cause({ended(0, 0, 3), ended(1, 0, 2)}), -1);
  EXPECT_TRUE(failure_lines({ended(0, 0, 3), ended(1, 0, 2)}).empty());
}

TEST(Failure, TheFirstIsTheCause) {
  EXPECT_EQ(cause({reported(0, "a", 4), ended(1, 3, 2), ended(2, 0, 1)}), 1);
  EXPECT_EQ(cause({reported(0, "a", 2, 200), reported(1, "b", 2, 100)}), 1);
}

TEST(Failure, ADeathComesBeforeReportsOfTheSameLook) {
  EXPECT_EQ(cause({reported(0, "rank 1 died", 2, 100), killed(1, SIGKILL, 2)}), 1);
}

TEST(Failure, WhoFailsBecauseOfAPeerIsNotTheCause) {
  EXPECT_EQ(
      cause({reported(0, "peer gone", 1, 1, ErrorKind::peer_failed), reported(1, "own", 2, 2)}), 1);
  EXPECT_EQ(cause({reported(0, "own", 1, 1, ErrorKind::own, 1), reported(1, "own", 2, 2)}), 1);
}

TEST(Failure, WithoutAnotherCauseAFailureBecauseOfAPeerIsOne) {
  EXPECT_EQ(cause({reported(0, "rank 1 left", 1, 1, ErrorKind::peer_failed), ended(1, 0, 1)}), 0);
}

TEST(Failure, WhatTheLauncherStoppedIsNoFailure) {
  RankEnd stopped = killed(0, SIGKILL, 1);
  stopped.stopped_by_us = true;
  EXPECT_EQ(cause({stopped, reported(1, "own", 2)}), 1);
  EXPECT_FALSE(failed(stopped));
}

// The peer whose timer fires first blames a neighbour, which may itself be waiting.
TEST(Failure, AFrozenRankIsTheCauseOfWhatWasWaitedForInVain) {
  RankEnd frozen = killed(2, SIGKILL, 9);
  frozen.stopped_by_us = frozen.frozen = true;
  const RankEnd waited = reported(0, "rank 0: waited for rank 1", 1, 1, ErrorKind::peer_silent);
  const RankEnd told = reported(1, "rank 0 failed", 1, 2, ErrorKind::peer_failed);
  EXPECT_EQ(cause({waited, told, frozen}), 2);
  EXPECT_THAT(failure_lines({waited, told, frozen}),
              ElementsAre("rank 2 is stopped (by SIGSTOP or a debugger): it neither reports nor "
                          "moves, and the run timed out waiting for it"));
  EXPECT_EQ(cause({told, waited}), 0) << "who waited knows more than who was told";
  EXPECT_EQ(cause({waited, frozen, reported(3, "the disk is full", 5, 5)}), 3);
}

TEST(Failure, ARankThatSigkillDoesNotEndIsTheCauseOfWaits) {
  RankEnd stuck;
  stuck.rank = 1;
  stuck.stopped_by_us = true;
  stuck.stuck = "process 47 is in state D (no signal reaches it) and waits in nfs_wait";
  const RankEnd waited = reported(0, "rank 0: waited for rank 2", 1, 1, ErrorKind::peer_silent);
  EXPECT_EQ(cause({waited, stuck}), 1);
  EXPECT_THAT(failure_lines({waited, stuck}),
              ElementsAre("rank 1 does not end, and SIGKILL has no effect: process 47 is in state "
                          "D (no signal reaches it) and waits in nfs_wait; it ends when what it "
                          "waits for in the system does (a file system, a device)"));
  EXPECT_EQ(cause({stuck, reported(3, "the disk is full", 5, 5)}), 3);
  stuck.report = FailureReport{Error("its own words"), 7};
  EXPECT_EQ(describe(stuck), "its own words");
}

TEST(Failure, ARankThatStarved) {
  RankEnd end = killed(1, SIGKILL, 1);
  end.starved = true;
  end.starved_limit = "memory.max of its control group is 2.00 GiB";
  EXPECT_EQ(
      describe(end),
      "rank 1 was killed by the system because memory ran out; memory.max of its control group "
      "is 2.00 GiB: use less of it (in a training: more ranks, a smaller batch.micro, "
      "recompute) or raise the limit");
}

TEST(Failure, AFewLinesWhateverTheNumberOfRanks) {
  std::vector<RankEnd> ends = {reported(0, "the cause", 1)};
  for (i64 rank = 1; rank < 100; ++rank) {
    ends.push_back(reported(rank, "its own trouble " + std::to_string(rank) + "\nin lines", 2));
  }
  const std::vector<std::string> lines = failure_lines(ends);
  EXPECT_THAT(lines,
              ElementsAre("[rank 1] its own trouble 1",
                          "[rank 2] its own trouble 2",
                          "[rank 3] its own trouble 3",
                          "(96 more ranks failed)",
                          "[rank 0] the cause"));
}

TEST(Failure, Descriptions) {
  EXPECT_EQ(describe(killed(1, SIGKILL, 1)), "rank 1 was killed by signal 9 (Killed)");
  RankEnd end = ended(2, 3, 1);
  EXPECT_EQ(describe(end), "rank 2 ended with exit code 3");
  end.last_line = "no space";
  EXPECT_EQ(describe(end), "rank 2 ended with exit code 3; its last line: no space");
}

TEST(Failure, TheCauseIsPrintedLastAndOnce) {
  EXPECT_THAT(failure_lines({reported(0, "bad", 2, 0, ErrorKind::own, 1),
                             reported(1, "bad", 1),
                             reported(2, "other", 3),
                             reported(3, "bad", 3)}),
              ElementsAre("[rank 2] other", "[rank 1] bad"));
}

TEST(Failure, WhatAllRanksSayIsNoRanksOwn) {
  EXPECT_THAT(failure_lines({reported(0, "unknown key", 2), reported(1, "unknown key", 1)}),
              ElementsAre("unknown key"));
}

}  // namespace failure_test
}  // namespace tessera
