// What a schedule's author learns from the conformance kit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tessera/schedule.hpp>
#include <tessera/testing/schedule_check.hpp>

namespace tessera {
namespace schedule_check_test {

using ::testing::HasSubstr;

// 1F1B that keeps `late` microbatches between forward and backward.
class Late final : public PipelineSchedule {
 public:
  Late(bool from_end, int declared) : from_end_(from_end), declared_(declared) {}
  int do_live(const PipelineShape& shape, int chunk) const override {
    return declared_ > 0 ? declared_ : PipelineSchedule::do_live(shape, chunk);
  }
  std::vector<Action> do_order(const PipelineShape& shape) const override {
    const int late = from_end_ ? shape.ranks - shape.rank - 1 : shape.rank;
    std::vector<Action> actions;
    for (int i = 0; i < shape.microbatches + late; ++i) {
      if (i < shape.microbatches) actions.push_back({Action::F, i});
      if (i >= late && shape.training) actions.push_back({Action::B, i - late});
    }
    return actions;
  }

 private:
  bool from_end_;
  int declared_;
};

TEST(ScheduleCheck, AcceptsWhatRuns) {
  EXPECT_EQ(testing::schedule_check(Late(true, 0), 4, {1, 3, 8}), "");
}

class WithoutChunks final : public PipelineSchedule {
 public:
  int do_chunks() const override { return 0; }
  std::vector<Action> do_order(const PipelineShape&) const override { return {}; }
};

TEST(ScheduleCheck, AScheduleHasChunks) {
  EXPECT_THAT(testing::schedule_check(WithoutChunks(), 2, {2}), HasSubstr("2 microbatches: "));
}

TEST(ScheduleCheck, NamesWhatIsWrong) {
  EXPECT_THAT(testing::schedule_check(Late(false, 0), 2, {1, 2}),
              HasSubstr("2 microbatches: the schedule deadlocks: pipeline rank 0 stops at action 1 "
                        "(B mb0 chunk0)"));
  EXPECT_THAT(testing::schedule_check(Late(true, 2), 3, {3}),
              HasSubstr("makes more microbatches live than the schedule declares"));
}

}  // namespace schedule_check_test
}  // namespace tessera
