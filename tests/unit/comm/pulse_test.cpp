#include "kernel/comm/control_plane/pulse.hpp"

#include <gmock/gmock.h>

#include <memory>
#include <sstream>
#include <thread>

#include "kernel/comm/store.hpp"

namespace tessera {
namespace pulse_test {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class Pulses : public ::testing::Test {
 protected:
  static constexpr i64 kRanks = 3;
  void SetUp() override {
    for (i64 rank = 0; rank < kRanks; ++rank) {
      pulses_.push_back(std::make_unique<Pulse>(store_, rank, kRanks, 1000ms, progress_[rank]));
    }
    for (i64 rank = 0; rank < kRanks; ++rank) store_.get(beat_key(rank), 60s);
  }
  Pulse& rank(i64 number) { return *pulses_[static_cast<std::size_t>(number)]; }
  // Stops as a process does: without a word.
  void freeze(i64 number) { pulses_[static_cast<std::size_t>(number)].reset(); }

  void move(i64 number) { progress_[number].begin_action("an action", ""); }

  InProcessStore store_;
  Progress progress_[kRanks];
  std::vector<std::unique_ptr<Pulse>> pulses_;
};

TEST_F(Pulses, NameTheRankWithoutASignOfLife) {
  freeze(2);
  rank(1).report();
  EXPECT_THAT(rank(0).who_is_silent(ErrorKind::peer_silent),
              StartsWith("rank 2 neither reports nor moves: no sign of life for "));
  // Others repeat it at once.
  EXPECT_THAT(rank(1).who_is_silent(ErrorKind::peer_failed),
              StartsWith("rank 2 neither reports nor moves"));
}

// The starter never starts one of them: the others wait for rank 0, which waits for it.
TEST_F(Pulses, NameTheRankThatNeverCame) {
  Pulse first(store_, 0, kRanks + 1, 1000ms, progress_[0]);
  for (i64 number = 0; number < kRanks; ++number) move(number);
  EXPECT_THAT(first.who_is_silent(ErrorKind::peer_silent), "rank 3 did not start");
}

TEST_F(Pulses, NameBothARankThatNeverCameAndAFrozenOne) {
  Pulse first(store_, 0, kRanks + 1, 1000ms, progress_[0]);
  freeze(2);
  EXPECT_THAT(first.who_is_silent(ErrorKind::peer_silent),
              StartsWith("rank 3 did not start; rank 2 neither reports nor moves: no sign of li"));
}

// It may wait in the store, for a rank that has just failed.
TEST_F(Pulses, ARankThatHasNotBegunIsNotInALoop) {
  rank(2).report();
  EXPECT_THAT(rank(0).who_is_silent(ErrorKind::peer_silent), IsEmpty());
}

TEST_F(Pulses, NameTheRankThatLivesAndDoesNothing) {
  move(1);
  rank(2).report();
  const auto begun = [&] {  // its pulse has told of it
    std::istringstream pulse(store_.get(beat_key(1), 60s));
    i64 beats = 0, moves = 0;
    return pulse >> beats >> moves && moves == 1;
  };
  while (!begun()) std::this_thread::sleep_for(10ms);
  EXPECT_THAT(rank(0).who_is_silent(ErrorKind::peer_silent),
              StartsWith("rank 1 neither reports nor moves: its process lives"));
}

TEST_F(Pulses, ARankThatMovesIsNotNamed) {
  rank(2).report();
  std::atomic<bool> over{false};
  std::thread works([&] {
    while (!over) {
      move(1);
      std::this_thread::sleep_for(10ms);
    }
  });
  EXPECT_THAT(rank(0).who_is_silent(ErrorKind::peer_silent), IsEmpty());
  over = true;
  works.join();
}

TEST_F(Pulses, FailuresOfOnesOwnBlameNobody) {
  freeze(2);
  EXPECT_THAT(rank(0).who_is_silent(ErrorKind::own), IsEmpty());
}

}  // namespace pulse_test
}  // namespace tessera
