#include "kernel/comm/control_plane/control_plane.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "kernel/comm/control_plane/pulse.hpp"
#include "kernel/comm/error_json.hpp"
#include "kernel/comm/store.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace control_plane_test {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ControlPlane plane(Store& store, i64 rank, i64 world, const WaitLimits& limits) {
  return {&store, rank, world, limits};
}

// What each rank threw, or "".
std::vector<std::string> on_ranks(i64 world, const std::function<void(i64)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(world));
  std::vector<std::thread> threads;
  for (i64 rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(rank)] =
            fmt::format("{}: {}", name(error.kind()), error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(Agree, SameFacts) {
  InProcessStore store;
  const auto errors = on_ranks(4, [&](i64 rank) {
    plane(store, rank, 4, 10s).same({{"stamp", "a:b\n"}, {"threads", "2"}});
    plane(store, rank, 4, 10s).same({{"data", ""}});
  });
  EXPECT_THAT(errors, Each(""));
}

// Rank 0 may serve the store, so it ends last.
TEST(Agree, RankZeroLeavesWhenAllKnow) {
  InProcessStore store;
  for (int round = 0; round < 2; ++round) {
    std::atomic<bool> other_came{false};
    const auto errors = on_ranks(2, [&](i64 rank) {
      if (rank == 1) {
        std::this_thread::sleep_for(50ms);
        other_came = true;
      }
      try {
        plane(store, rank, 2, 10s).decide("test", [] { fail("no"); });
      } catch (const Error&) {
        EXPECT_TRUE(other_came);
        throw;
      }
    });
    EXPECT_THAT(errors, Each("own: no"));
  }
  // Nobody else comes.
  EXPECT_THROW(plane(store, 0, 2, 10ms).decide("test", [] { fail("no"); }), Error);
}

// The texts are longer than what a store takes at once.
TEST(Agree, RankZeroCollectsLongTexts) {
  InProcessStore store;
  const auto text_of = [](i64 rank) {
    return std::string(static_cast<std::size_t>(rank) * 5'000'000, static_cast<char>('a' + rank));
  };
  for (int round = 0; round < 2; ++round) {
    const auto errors = on_ranks(3, [&](i64 rank) {
      const auto texts = plane(store, rank, 3, 10s).collect("trace", text_of(rank));
      if (rank > 0) {
        EXPECT_THAT(texts, ::testing::IsEmpty());
      } else {
        EXPECT_THAT(texts, ElementsAre(text_of(0), text_of(1), text_of(2)));
      }
    });
    EXPECT_THAT(errors, Each(""));
  }
  EXPECT_EQ(store.get("plane/trace/2/2/2", 0s), "") << "what was taken is not kept";
}

TEST(Agree, OneRankAsksNobody) {
  InProcessStore store;
  plane(store, 0, 1, 0s).same({{"threads", "2"}});
}

TEST(Agree, EveryRankNamesTheFirstDifference) {
  InProcessStore store;
  const auto errors = on_ranks(4, [&](i64 rank) {
    plane(store, rank, 4, 10s)
        .same({{"stamp", "x"}, {"threads", rank >= 2 ? "8" : "4"}, {"data", std::to_string(rank)}});
  });
  // Rank 1 differs from rank 0 too, and comes before rank 2.
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("disagree on data"), HasSubstr("\"0\" on rank 0"))));
  EXPECT_THAT(errors, Each(errors[0]));
  EXPECT_THAT(errors[0], ::testing::StartsWith("configuration: "));
}

TEST(Agree, LaterCallsAreComparedAnew) {
  InProcessStore store;
  const auto errors = on_ranks(2, [&](i64 rank) {
    plane(store, rank, 2, 10s).same({{"threads", "4"}});
    plane(store, rank, 2, 10s).same({{"threads", rank == 0 ? "4" : "8"}});
  });
  EXPECT_THAT(errors, Each(HasSubstr("disagree on threads: \"4\" on rank 0, \"8\" on rank 1")));
}

TEST(Agree, WhoIsMissingIsNamedByAll) {
  InProcessStore store;
  const auto errors = on_ranks(2, [&](i64 rank) { plane(store, rank, 3, 1s).same({{"a", "b"}}); });
  EXPECT_THAT(errors, Each("peer_silent: rank 2 did not start within 1.0 s (comm.init_timeout_s)"));
}

TEST(DecideOnFirst, OnlyRankZeroDecides) {
  InProcessStore store;
  std::atomic<int> decided{0};
  const auto errors = on_ranks(3, [&](i64 rank) {
    for (int round = 0; round < 2; ++round) {
      const auto decide = [&] {
        EXPECT_EQ(rank, 0);
        ++decided;
      };
      plane(store, rank, 3, 10s).decide("test", decide);
      EXPECT_GT(decided, round) << "rank " << rank << " did not wait";
    }
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_EQ(decided, 2);
}

TEST(DecideOnFirst, ItsErrorEndsAllRanks) {
  InProcessStore store;
  const auto thrown_by = [&](const std::function<void()>& decide) {
    return on_ranks(3, [&](i64 rank) { plane(store, rank, 3, 10s).decide("test", decide); });
  };
  EXPECT_THAT(thrown_by([] { fail_config("no 2 such\nkeys"); }),
              Each("configuration: no 2 such\nkeys"));
  const auto kinds = thrown_by([] { throw Error("gone", ErrorKind::peer_failed); });
  EXPECT_THAT(kinds, Each("peer_failed: gone"));
}

TEST(DecideOnFirst, SaysThatRankZeroIsMissing) {
  InProcessStore store;
  const auto wait = [&](i64) { plane(store, 1, 2, 100ms).decide("test of it", [] {}); };
  EXPECT_THAT(on_ranks(1, wait), Each(HasSubstr("rank 0's verdict (test of it) did not come")));
}

TEST(Agree, LongTextsAreComparedByLine) {
  EXPECT_THAT(describe_difference({{"configuration", "seed = 1\nlr = 2\nend"}},
                                  0,
                                  {{"configuration", "seed = 1\nlr = 3\nend"}},
                                  5),
              HasSubstr("configuration: line 2 is \"lr = 2\" on rank 0, \"lr = 3\" on rank 5"));
  EXPECT_THAT(describe_difference({{"c", "a\nb"}}, 0, {{"c", "a"}}, 1),
              HasSubstr("line 2 is \"b\" on rank 0, missing on rank 1"));
  EXPECT_THAT(describe_difference({{"c", ""}}, 0, {{"c", "a\nb"}}, 1),
              HasSubstr("line 1 is missing on rank 0, \"a\" on rank 1"));
}

TEST(Agree, ALongLineIsShownWhereItDiffers) {
  const std::string same(500, 's');
  const std::string text =
      describe_difference({{"c", same + "left"}}, 0, {{"c", same + "right"}}, 1);
  EXPECT_THAT(text, AllOf(HasSubstr("ssleft\""), HasSubstr("ssright\"")));
  EXPECT_LT(text.size(), 400U);
}

TEST(Agree, OtherListsOfFacts) {
  EXPECT_THAT(describe_difference({{"a", ""}}, 0, {{"b", ""}}, 1), HasSubstr("rank 0 a, rank 1 b"));
  EXPECT_THAT(describe_difference({{"a", ""}}, 0, {}, 1), HasSubstr("rank 1 nothing more"));
  EXPECT_EQ(describe_difference({{"a", "x"}}, 0, {{"a", "x"}}, 1), "");
}

TEST(GatherText, EveryRankHasAllTexts) {
  InProcessStore store;
  const auto errors = on_ranks(3, [&](i64 rank) {
    for (const char* round : {"first", "second"}) {
      const auto texts =
          plane(store, rank, 3, 10s).gather("where", fmt::format("{} {}", round, rank));
      std::vector<std::string> expected;
      for (i64 peer = 0; peer < 3; ++peer) expected.push_back(fmt::format("{} {}", round, peer));
      require(texts == expected, "rank {} has other texts", rank);
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(GatherText, NamesTheRankThatDoesNotCome) {
  InProcessStore store;
  const auto errors =
      on_ranks(2, [&](i64 rank) { plane(store, rank, 3, 1s).gather("addresses", "x"); });
  EXPECT_THAT(errors, Each(HasSubstr("rank 2's addresses did not come")));
}

// Beats as the pulse of a rank that lives.
std::jthread beating(InProcessStore& store, i64 rank) {
  return std::jthread([&store, rank](const std::stop_token& stop) {
    for (int beat = 2; !stop.stop_requested(); ++beat) {
      store.set(beat_key(rank), std::to_string(beat));
      std::this_thread::sleep_for(100ms);
    }
  });
}

// What a rank does may take long, and its pulse beats all the while.
TEST(GatherText, ARankWithoutPulseIsNotWaitedFor) {
  InProcessStore store;
  store.set(beat_key(0), "1");
  store.set(beat_key(2), "1");
  const std::jthread pulse = beating(store, 1);
  const auto errors = on_ranks(2, [&](i64 rank) {
    if (rank == 1) std::this_thread::sleep_for(3s);
    plane(store, rank, 3, {60s, 1ms}).gather("parts", "x");
  });
  EXPECT_THAT(
      errors,
      Each(AllOf(HasSubstr("peer_silent: rank 2's parts did not come: no sign of life of rank 2 "),
                 HasSubstr(" s"))));
}

// Says that a rank died, as the server does whose connection to it has ended.
class DyingStore final : public InProcessStore {
 public:
  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    try {
      return InProcessStore::get(key, std::min<std::chrono::milliseconds>(timeout, 50ms));
    } catch (const Error&) {
      if (dead) throw Error("store: rank 1 died: it broke", ErrorKind::peer_failed);
      throw;
    }
  }
  std::atomic<bool> dead{false};
};

// Whoever waits for a rank is told at once of any that has failed.
TEST(GatherText, AFailureIsNoSilence) {
  DyingStore store;
  store.set(beat_key(1), "1");
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = on_ranks(1, [&](i64) {
    std::jthread other([&] {
      std::this_thread::sleep_for(100ms);
      store.dead = true;
    });
    plane(store, 0, 2, {60s, 60s}).gather("parts", "x");
  });
  EXPECT_THAT(
      errors[0],
      AllOf(HasSubstr("peer_failed: rank 1's parts did not come: "), HasSubstr("it broke")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

// Its first rank's text comes when the time is over.
class LateStore final : public InProcessStore {
 public:
  std::string get(std::string_view key, std::chrono::milliseconds timeout) override {
    if (key.ends_with("/0")) std::this_thread::sleep_for(1200ms);
    return InProcessStore::get(key, timeout);
  }
};

TEST(GatherText, WhatIsThereIsTakenAlsoAfterALateRank) {
  LateStore store;
  const auto errors = on_ranks(2, [&](i64 rank) {
    plane(store, rank, 2, {1s, 1s}).gather("parts", "x");
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(GatherText, TheWholeTimeIsTold) {
  InProcessStore store;
  const std::jthread pulse = beating(store, 1);
  const auto errors = on_ranks(1, [&](i64) { plane(store, 0, 2, {3s, 1ms}).gather("parts", "x"); });
  EXPECT_THAT(errors[0],
              HasSubstr("peer_silent: rank 1's parts did not come: nothing came within 3."));
}

}  // namespace control_plane_test
}  // namespace tessera
