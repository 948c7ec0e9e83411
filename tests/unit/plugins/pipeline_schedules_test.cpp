// The pipeline schedules: orders and warm-up counts against published sequences, idle time and live
// activations against the papers' formulas, and all of them through the verifier.
#include <gmock/gmock.h>

#include <numeric>

#include "kernel/schedule/timeline.hpp"
#include "kernel/schedule/verify.hpp"
#include "tessera/error.hpp"
#include "tests/unit/plugins/plugins_support.hpp"
#include "tests/unit/schedule/schedule_support.hpp"

namespace tessera {
namespace pipeline_schedules_test {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::shared_ptr<PipelineSchedule> make(std::string_view type,
                                       int ranks,
                                       const std::string& keys = "") {
  ScheduleArguments arguments{ranks};
  return make_plugin<PipelineSchedule>(type, keys, arguments);
}

PipelineShape shape_of(
    const PipelineSchedule& schedule, int ranks, int rank, int microbatches, bool training = true) {
  return {.ranks = ranks,
          .rank = rank,
          .chunks = schedule.chunks(),
          .microbatches = microbatches,
          .training = training};
}

/// Forward of chunk c as c + 1, backward as its negative.
std::vector<int> signs(const std::vector<Action>& actions) {
  std::vector<int> out;
  for (const Action& a : actions) out.push_back(a.kind == Action::F ? a.chunk + 1 : -a.chunk - 1);
  return out;
}

std::vector<int> order_of(
    std::string_view type, int ranks, int rank, int microbatches, const std::string& keys = "") {
  const auto schedule = make(type, ranks, keys);
  return signs(schedule->order(shape_of(*schedule, ranks, rank, microbatches)));
}

int warmup_of(
    std::string_view type, int ranks, int rank, int microbatches, const std::string& keys = "") {
  const auto schedule = make(type, ranks, keys);
  return schedule->warmup(shape_of(*schedule, ranks, rank, microbatches));
}

std::string text_of_order(
    std::string_view type, int ranks, int rank, int microbatches, const std::string& keys = "") {
  const auto schedule = make(type, ranks, keys);
  std::string text;
  for (const Action& action : schedule->order(shape_of(*schedule, ranks, rank, microbatches))) {
    constexpr std::string_view kNames[] = {"F", "B", "I", "W"};
    text += fmt::format("{}{}{} ",
                        kNames[action.kind],
                        action.microbatch,
                        schedule->chunks() == 1 ? ""
                        : action.chunk == 0     ? "a"
                                                : "b");
  }
  return text;
}

TEST(GPipe, AllForwardsThenAllBackwards) {
  EXPECT_EQ(text_of_order("gpipe", 4, 1, 3), "F0 F1 F2 B0 B1 B2 ");
  EXPECT_EQ(warmup_of("gpipe", 4, 1, 3), 3);
}

TEST(OneForwardOneBackward, WarmsUpByTheRanksBehind) {
  EXPECT_EQ(text_of_order("1f1b", 4, 0, 5), "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4 ");
  EXPECT_EQ(text_of_order("1f1b", 4, 2, 3), "F0 F1 B0 F2 B1 B2 ");
  EXPECT_EQ(text_of_order("1f1b", 4, 3, 3), "F0 B0 F1 B1 F2 B2 ");
  EXPECT_EQ(text_of_order("1f1b", 1, 0, 2), "F0 B0 F1 B1 ");
  EXPECT_EQ(text_of_order("1f1b", 4, 0, 2), "F0 F1 B0 B1 ") << "fewer microbatches than ranks";
  EXPECT_THAT((std::vector{warmup_of("1f1b", 4, 0, 5),
                           warmup_of("1f1b", 4, 1, 5),
                           warmup_of("1f1b", 4, 3, 5),
                           warmup_of("1f1b", 4, 0, 2),
                           warmup_of("1f1b", 1, 0, 2)}),
              ElementsAre(3, 2, 0, 2, 0));
}

// Pipeline 4, two chunks, 8 microbatches, rank 0: the worked example.
TEST(Interleaved, FollowsThePublishedOrder) {
  const std::vector<int> published = {1,  1,  1,  1,  2,  2,  2,  2,  1,  1,          // warm-up
                                      1,  -2, 1,  -2, 2,  -2, 2,  -2, 2,  -1, 2, -1,  // pairs
                                      -1, -1, -2, -2, -2, -2, -1, -1, -1, -1};
  EXPECT_THAT(order_of("interleaved_1f1b", 4, 0, 8), ElementsAreArray(published));
  const auto schedule = make("interleaved_1f1b", 4);
  const PipelineShape first = shape_of(*schedule, 4, 0, 8), last = shape_of(*schedule, 4, 3, 8);
  EXPECT_EQ(schedule->warmup(first), 10);
  EXPECT_EQ(schedule->warmup(last), 4);
  EXPECT_EQ(schedule->live(first, 0), 8);
  EXPECT_EQ(schedule->live(first, 1), 4);
  EXPECT_EQ(schedule->live(last, 0), 5);
  EXPECT_EQ(schedule->live(last, 1), 1);
}

// Groups of three of five microbatches on two ranks: the last group is short.
TEST(Interleaved, TakesUnevenGroups) {
  const std::string keys = "microbatch_group = 3";
  EXPECT_THAT(order_of("interleaved_1f1b", 2, 0, 5, keys),
              ElementsAre(1, 1, 1, 2, 2, 2, -2, 1, -2, 1, -2, 2, -1, 2, -1, -1, -2, -2, -1, -1));
  EXPECT_EQ(warmup_of("interleaved_1f1b", 2, 0, 5, keys), 5);
  const auto schedule = make("interleaved_1f1b", 2, keys);
  std::vector<std::pair<int, int>> forwards;
  for (const Action& action : schedule->order(shape_of(*schedule, 2, 0, 5, false))) {
    ASSERT_EQ(action.kind, Action::F);
    forwards.emplace_back(action.microbatch, action.chunk);
  }
  using P = std::pair<int, int>;
  EXPECT_THAT(forwards,
              ElementsAre(P{0, 0},
                          P{1, 0},
                          P{2, 0},
                          P{0, 1},
                          P{1, 1},
                          P{2, 1},
                          P{3, 0},
                          P{4, 0},
                          P{3, 1},
                          P{4, 1}));
}

TEST(Interleaved, WarmUpFollowsTheFormula) {
  for (const int p : {2, 3, 4}) {
    for (const int v : {2, 3, 4}) {
      for (const int g : {p, p + 1, 2 * p}) {
        for (const int m : {g, 2 * g, 2 * g + p}) {
          const auto schedule =
              make("interleaved_1f1b", p, fmt::format("chunks = {}\nmicrobatch_group = {}", v, g));
          for (int rank = 0; rank < p; ++rank) {
            const int formula = std::min(2 * (p - rank - 1) + (v - 1) * g, m * v);
            EXPECT_EQ(schedule->warmup(shape_of(*schedule, p, rank, m)), formula);
            EXPECT_EQ(schedule->warmup(shape_of(*schedule, p, rank, m, false)), m * v);
          }
        }
      }
    }
  }
  EXPECT_EQ(warmup_of("interleaved_1f1b", 1, 0, 8), 0);
  EXPECT_THAT(order_of("interleaved_1f1b", 1, 0, 2), ElementsAre(1, 2, -2, -1, 1, 2, -2, -1));
}

TEST(Interleaved, WithOneChunkIsPlain1F1B) {
  for (const int p : {1, 2, 4}) {
    const auto interleaved = make("interleaved_1f1b", p, "chunks = 1");
    const auto plain = make("1f1b", p, "");
    for (int rank = 0; rank < p; ++rank) {
      for (const bool training : {true, false}) {
        const PipelineShape shape = shape_of(*plain, p, rank, 6, training);
        EXPECT_EQ(interleaved->order(shape), plain->order(shape));
        EXPECT_EQ(interleaved->warmup(shape), plain->warmup(shape));
      }
    }
  }
}

TEST(Interleaved, RefusesWhatItCannotRun) {
  EXPECT_THAT(text_of<ConfigError>([] { order_of("interleaved_1f1b", 4, 0, 6); }),
              HasSubstr("in groups of 4; the last group of 6 microbatches has 2, fewer than "
                        "parallel.pipeline = 4"));
  EXPECT_THAT(text_of<ConfigError>([] {
                const auto schedule = make("interleaved_1f1b", 4, "");
                schedule->order(shape_of(*schedule, 4, 0, 5, false));
              }),
              HasSubstr("the last group of 5 microbatches has 1"));
  EXPECT_THAT(text_of<ConfigError>([] { make("interleaved_1f1b", 4, "microbatch_group = 3"); }),
              HasSubstr("schedule.microbatch_group = 3 must be at least parallel.pipeline = 4"));
  EXPECT_THAT(
      text_of<ConfigError>([] { order_of("interleaved_1f1b", 2, 0, 4, "microbatch_group = 6"); }),
      HasSubstr("schedule.microbatch_group = 6 is larger than the 4 microbatches of a step"));
  EXPECT_THAT(text_of<ConfigError>([] { make("interleaved_1f1b", 1, "microbatch_group = 2"); }),
              HasSubstr("schedule.microbatch_group = 2 has no effect with parallel.pipeline = 1"));
  EXPECT_THAT(
      text_of<ConfigError>([] { make("interleaved_1f1b", 2, "chunks = 1\nmicrobatch_group = 2"); }),
      HasSubstr("schedule.microbatch_group = 2 has no effect with schedule.chunks = 1"));
}

TEST(ZbH1, DelaysWeightHalvesByTheRank) {
  EXPECT_EQ(text_of_order("zb_h1", 3, 0, 4), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3 ");
  EXPECT_EQ(text_of_order("zb_h1", 3, 1, 4), "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3 ");
  EXPECT_EQ(text_of_order("zb_h1", 3, 2, 4), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3 ");
  EXPECT_EQ(warmup_of("zb_h1", 3, 0, 4), 2);
}

TEST(Zbv, GoesDownAndUp) {
  EXPECT_EQ(text_of_order("zbv", 2, 0, 3),
            "F0a F1a F2a F0b I0b W0b F1b I1b W1b I0a W0a F2b I2b W2b I1a W1a I2a W2a ");
  EXPECT_EQ(text_of_order("zbv", 2, 1, 3),
            "F0a F0b F1a F1b I0b W0b F2a I0a W0a F2b I1b W1b I1a I2b I2a W1a W2b W2a ");
}

TEST(DualPipeV, PairsForwardAndBackward) {
  EXPECT_EQ(text_of_order("dualpipe_v", 2, 0, 4),
            "F0a F1a F2a F0b I0b W0b F1b F3a B1b F2b B0a B2b F3b B1a B3b I2a W2a I3a W3a ");
  const auto schedule = make("dualpipe_v", 2);
  const std::vector<Action> order = schedule->order(shape_of(*schedule, 2, 0, 4));
  int pairs = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    if (order[i].kind != Action::F || order[i + 1].kind != Action::B) continue;
    ++pairs;
    EXPECT_NE(order[i + 1].chunk, order[i].chunk);
  }
  EXPECT_EQ(pairs, 3);
}

TEST(Overlap, WarmsUpSoThatEveryForwardHasABackward) {
  const std::string on = "overlap = true";
  EXPECT_EQ(text_of_order("sequential", 1, 0, 3, on), "F0 F1 B0 F2 B1 B2 ");
  EXPECT_EQ(text_of_order("1f1b", 1, 0, 3, on), "F0 F1 B0 F2 B1 B2 ");
  EXPECT_EQ(text_of_order("1f1b", 2, 0, 5, on), "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4 ");
  EXPECT_EQ(text_of_order("1f1b", 2, 1, 3, on), "F0 F1 B0 F2 B1 B2 ");
  EXPECT_THAT(order_of("interleaved_1f1b", 1, 0, 2, on), ElementsAre(1, 2, 1, -2, 2, -1, -2, -1));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(warmup_of("1f1b", 4, rank, 9, on), 2 * (3 - rank) + 1);
    EXPECT_EQ(warmup_of("interleaved_1f1b", 4, rank, 8, on),
              warmup_of("interleaved_1f1b", 4, rank, 8) + 1);
  }
  EXPECT_EQ(text_of_order("dualpipe_v", 2, 0, 4, on), text_of_order("dualpipe_v", 2, 0, 4));
}

// Pairs take as long as both of their passes, and nobody waits between the first and the last one.
// With p - rank warm-up forwards, neighbours would take turns: 3 units more for each microbatch.
TEST(Overlap, OfPlain1F1BWaitsOnlyWhileFillingAndDraining) {
  for (const int p : {2, 3, 4}) {
    const auto makespan = [&](int m) {
      const auto schedule = make("1f1b", p, "overlap = true");
      return play(orders_of(*schedule, shape_of(*schedule, p, 0, m))).makespan;
    };
    for (const int m : {3 * p, 4 * p}) EXPECT_EQ(makespan(m + 1) - makespan(m), 3);
  }
}

TEST(Overlap, IsRefusedWhereNothingPairs) {
  for (const std::string type : {"sequential", "1f1b", "interleaved_1f1b"}) {
    EXPECT_THAT(text_of<ConfigError>([&] { order_of(type, 1, 0, 1, "overlap = true"); }),
                HasSubstr("schedule.overlap: a step has 1 microbatch, and a forward overlaps the "
                          "backward of another one: change batch.global or batch.micro, or take "
                          "overlap away"));
  }
  EXPECT_THAT(text_of<ConfigError>([] { order_of("dualpipe_v", 2, 0, 3, "overlap = true"); }),
              HasSubstr("schedule.overlap: 3 microbatches of a step make no pairs under this "
                        "schedule, it takes 2 · parallel.pipeline = 4: change batch.global or "
                        "batch.micro, or take overlap away"));
}

// Units of time beyond 3 a microbatch and chunk, with enough microbatches.
double idle(std::string_view type, int p, int m, const std::string& keys = "") {
  const auto schedule = make(type, p, keys);
  const PipelineShape shape = shape_of(*schedule, p, 0, m);
  return play(orders_of(*schedule, shape)).makespan - 3.0 * m * shape.chunks;
}

TEST(PipelineSchedules, IdleTimeIsThePapers) {
  for (const int p : {2, 3, 4, 8}) {
    EXPECT_EQ(idle("gpipe", p, 3 * p), 3 * (p - 1));
    EXPECT_EQ(idle("1f1b", p, 3 * p), 3 * (p - 1)) << "(p - 1)(F + B)";
    EXPECT_EQ(idle("interleaved_1f1b", p, 3 * p, "chunks = 4"), 3 * (p - 1))
        << "of chunks a fourth as long";
    EXPECT_EQ(idle("zb_h1", p, 3 * p), p - 1) << "(p - 1)(F + Bi - Bw)";
    EXPECT_EQ(idle("zbv", p, 3 * p), p - 1) << "of half chunks: filling and draining";
    EXPECT_EQ(idle("dualpipe_v", p, 3 * p), p - 1);
  }
}

TEST(PipelineSchedules, LiveActivationsAreThePapers) {
  const auto live = [](std::string_view type, int p, int rank) {
    const auto schedule = make(type, p);
    int sum = 0;
    for (int chunk = 0; chunk < schedule->chunks(); ++chunk) {
      sum += schedule->live(shape_of(*schedule, p, rank, 3 * p), chunk);
    }
    return sum;
  };
  for (const int p : {2, 4, 8}) {
    for (int rank = 0; rank < p; ++rank) {
      EXPECT_EQ(live("gpipe", p, rank), 3 * p);
      EXPECT_EQ(live("1f1b", p, rank), p - rank);
      EXPECT_EQ(live("zb_h1", p, rank), p);
      EXPECT_LE(live("zbv", p, rank), 2 * p + 1) << "of half chunks; both peaks need not meet";
      EXPECT_LE(live("dualpipe_v", p, rank), 2 * p + 2);
    }
  }
}

// Every schedule, size and rank: the plans pass the verifier, and what is declared is what is
// reached.
TEST(PipelineSchedules, PassTheVerifierInEverySize) {
  const std::pair<std::string, std::string> all[] = {
      {"gpipe", ""},
      {"1f1b", ""},
      {"interleaved_1f1b", "chunks = 2"},
      {"interleaved_1f1b", "chunks = 3"},
      {"zb_h1", ""},
      {"zbv", ""},
      {"dualpipe_v", ""},
      {"1f1b", "overlap = true"},
      {"interleaved_1f1b", "chunks = 3\noverlap = true"},
      {"dualpipe_v", "overlap = true"}};
  for (const auto& [type, keys] : all) {
    for (const int p : {1, 2, 3, 4}) {
      for (const int m : {1, 2, 3, 4, 7, 8, 9}) {
        for (const bool training : {true, false}) {
          const bool interleaved = type == "interleaved_1f1b";
          if (interleaved && m % p != 0) continue;
          const bool pairs = keys.ends_with("overlap = true") && training;
          if (pairs && m < (type == "dualpipe_v" ? 2 * p : 2)) continue;
          SCOPED_TRACE(fmt::format("{} {} p {} m {} training {}", type, keys, p, m, training));
          const auto schedule = make(type, p, keys);
          const PipelineShape shape = shape_of(*schedule, p, 0, m, training);
          const std::vector<Plan> plans = testing::lower_all(*schedule, shape, m % 2 == 0);
          ASSERT_NO_THROW(verify(plans));
          const Timeline orders = play(orders_of(*schedule, shape));
          const Timeline lowered = play(plans, unit_costs());
          if (pairs) {  // the forward of a pair may wait for its input while the backward runs
            EXPECT_LE(lowered.makespan, orders.makespan);
          } else {
            EXPECT_EQ(lowered.makespan, orders.makespan) << "exchanges cost no time of their own";
          }
          for (int rank = 0; rank < p; ++rank) {
            EXPECT_EQ(orders.live(shape)[static_cast<std::size_t>(rank)],
                      plans[static_cast<std::size_t>(rank)].live);
          }
        }
      }
    }
  }
}

}  // namespace pipeline_schedules_test
}  // namespace tessera
