// A pipeline schedule: twenty lines for its author, the kernel does the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tessera/schedule.hpp>

#include <algorithm>
#include <map>

#include "sdk_support.hpp"

namespace tessera {
namespace interleaved_schedule_test {

/// Narayanan et al. 2021, §2.2: each rank holds several chunks and takes its microbatches in
/// groups of p.
class Interleaved final : public PipelineSchedule {
 public:
  struct Config {
    i64 chunks = 2;
    static void describe(Schema<Config>& s) {
      s.field("chunks", &Config::chunks, "model chunks on each rank")
          .at_least(1)
          .megatron("--num-virtual-stages-per-pipeline-rank");
    }
  };
  Interleaved(const Config& config, ScheduleArguments&)
      : chunks_(static_cast<int>(config.chunks)) {}

  int do_chunks() const override { return chunks_; }

  int do_live(const PipelineShape& shape, int chunk) const override {
    int now = 0, most = 0;
    for (const Action& action : order(shape)) {
      if (action.chunk == chunk) most = std::max(most, now += action.kind == Action::F ? 1 : -1);
    }
    return most;
  }

  std::vector<Action> do_order(const PipelineShape& shape) const override {
    const int p = shape.ranks, all = shape.microbatches * shape.chunks;
    const auto action = [&](Action::Kind kind, int i) {
      const int group = i / (p * shape.chunks), in_group = i % (p * shape.chunks);
      const int size = std::min(p, shape.microbatches - group * p);
      const int chunk = in_group / size;
      return Action{
          kind, group * p + in_group % size, kind == Action::F ? chunk : shape.chunks - 1 - chunk};
    };
    int warmup = 2 * (p - shape.rank - 1) + (shape.chunks - 1) * p;
    if (!shape.training) warmup = all;
    warmup = std::min(warmup, all);
    std::vector<Action> actions;
    for (int i = 0; i < warmup; ++i) actions.push_back(action(Action::F, i));
    if (!shape.training) return actions;
    for (int i = warmup; i < all; ++i) {
      actions.push_back(action(Action::F, i));
      actions.push_back(action(Action::B, i - warmup));
    }
    for (int i = all - warmup; i < all; ++i) actions.push_back(action(Action::B, i));
    return actions;
  }

 private:
  int chunks_;
};

PipelineShape shape_of(int ranks, int rank, int chunks, int microbatches) {
  return {.ranks = ranks, .rank = rank, .chunks = chunks, .microbatches = microbatches};
}

Interleaved interleaved(int chunks) {
  ScheduleArguments arguments;
  return {{chunks}, arguments};
}

/// Forward of chunk c as c + 1, backward as its negative.
std::vector<int> signs(const std::vector<Action>& actions) {
  std::vector<int> out;
  for (const Action& a : actions) out.push_back(a.kind == Action::F ? a.chunk + 1 : -a.chunk - 1);
  return out;
}

TEST(InterleavedSchedule, FollowsThePublishedOrder) {
  EXPECT_THAT(signs(interleaved(2).order(shape_of(4, 0, 2, 8))),
              ::testing::ElementsAre(1,
                                     1,
                                     1,
                                     1,
                                     2,
                                     2,
                                     2,
                                     2,
                                     1,
                                     1,  //
                                     1,
                                     -2,
                                     1,
                                     -2,
                                     2,
                                     -2,
                                     2,
                                     -2,
                                     2,
                                     -1,
                                     2,
                                     -1,  //
                                     -1,
                                     -1,
                                     -2,
                                     -2,
                                     -2,
                                     -2,
                                     -1,
                                     -1,
                                     -1,
                                     -1));
}

TEST(InterleavedSchedule, BoundsLiveActivations) {
  const Interleaved schedule = interleaved(2);
  EXPECT_EQ(schedule.live(shape_of(4, 0, 2, 8), 0), 8);
  EXPECT_EQ(schedule.live(shape_of(4, 0, 2, 8), 1), 4);
  EXPECT_EQ(schedule.live(shape_of(4, 3, 2, 8), 0), 5);
  EXPECT_EQ(schedule.live(shape_of(4, 3, 2, 8), 1), 1);
}

TEST(InterleavedSchedule, EveryActionOnceForwardFirst) {
  for (const int ranks : {1, 2, 4}) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const int microbatches : {4, 8}) {
        const auto actions = interleaved(3).order(shape_of(ranks, rank, 3, microbatches));
        EXPECT_EQ(static_cast<int>(actions.size()), 2 * 3 * microbatches);
        std::map<std::pair<int, int>, int> seen;
        for (const Action& a : actions) {
          int& state = seen[{a.microbatch, a.chunk}];
          EXPECT_EQ(state, a.kind == Action::F ? 0 : 1);
          ++state;
        }
        EXPECT_EQ(static_cast<int>(seen.size()), 3 * microbatches);
      }
    }
  }
}

TEST(InterleavedSchedule, PlacesChunksInLoops) {
  const Interleaved schedule = interleaved(2);
  const PipelineShape shape = shape_of(4, 0, 2, 8);
  EXPECT_EQ(schedule.place(shape, 1, 0).stage, 1);
  EXPECT_EQ(schedule.place(shape, 1, 1).stage, 5);
  TestRegistrar registrar;
  registrar.add<PipelineSchedule, Interleaved>("interleaved", "Narayanan et al. 2021");
  EXPECT_EQ(registrar.find("schedule", "interleaved").fields[0].type_text(), "integer >= 1");
}

}  // namespace interleaved_schedule_test
}  // namespace tessera
