#include "kernel/schedule/draw.hpp"

#include <gmock/gmock.h>

#include "schedule_support.hpp"
#include "tessera/error.hpp"

namespace tessera::testing {
namespace draw_test {

TEST(Draw, OneRankInARow) {
  const GivenSchedule schedule({{{Action::F, 0}, {Action::B, 0}, {Action::F, 1}, {Action::B, 1}}});
  EXPECT_EQ(draw(schedule, one_stage(2)), "rank 0  F0   B0        F1   B1\n");
}

TEST(Draw, RanksWaitForTheirNeighbours) {
  PipelineShape shape = one_stage(2);
  shape.ranks = 2;
  const GivenSchedule schedule({{{Action::F, 0}, {Action::F, 1}, {Action::B, 0}, {Action::B, 1}},
                                {{Action::F, 0}, {Action::B, 0}, {Action::F, 1}, {Action::B, 1}}},
                               2);
  EXPECT_EQ(draw(schedule, shape),
            "rank 0  F0   F1             B0             B1\n"
            "rank 1       F0   B0        F1   B1\n");
}

TEST(Draw, HalvesTakeOneUnitEach) {
  const GivenSchedule schedule({{{Action::F, 0}, {Action::Bi, 0}, {Action::Bw, 0}}});
  EXPECT_EQ(draw(schedule, one_stage(1)), "rank 0  F0   Bi0  Bw0\n");
}

TEST(Draw, ChunksAreNumbered) {
  PipelineShape shape = one_stage(1);
  shape.chunks = 2;
  const GivenSchedule schedule(
      {{{Action::F, 0, 0}, {Action::F, 0, 1}, {Action::B, 0, 1}, {Action::B, 0, 0}}}, 1, 2);
  EXPECT_EQ(draw(schedule, shape), "rank 0  F0.0 F0.1 B0.1      B0.0\n");
}

TEST(Draw, SaysWhereAnOrderIsWrong) {
  PipelineShape shape = one_stage(1);
  shape.ranks = 2;
  const GivenSchedule schedule(
      {{{Action::B, 0}, {Action::F, 0}}, {{Action::F, 0}, {Action::B, 0}}});
  EXPECT_THAT([&] { draw(schedule, shape); },
              ::testing::ThrowsMessage<Error>(
                  "the schedule of pipeline rank 0 is out of order: action 0 (B mb0 chunk0) needs "
                  "F mb0 chunk0, which is action 1"));
}

}  // namespace draw_test
}  // namespace tessera::testing
