#include "kernel/launch/progress_board.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace tessera {
namespace progress_board_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ProgressBoard, ShowsWhatRanksWrote) {
  ProgressBoard board(3);
  const ProgressBoard of_rank(board.number(), 3);
  const auto rank = of_rank.of(2), seen = board.of(2);
  rank->begin_step(57);
  EXPECT_EQ(seen->step(), 57);
  EXPECT_EQ(board.of(0)->step(), 0);
  EXPECT_THAT(seen->actions(), IsEmpty());
  for (int i = 0; i < 10; ++i) rank->begin_action("action", std::to_string(i));
  rank->begin_action("the forward pass of layer", std::string(300, 'x'), 4);
  const std::vector<std::string> actions = seen->actions();
  ASSERT_THAT(actions, SizeIs(8));
  EXPECT_EQ(actions.front(), "action 3");
  EXPECT_EQ(actions.back(), "the forward pass of layer " + std::string(63, 'x') + ", microbatch 4");
  EXPECT_EQ(seen->actions_begun(), 11);
  board.clear();
  EXPECT_THAT(seen->actions(), IsEmpty());
  EXPECT_EQ(seen->step(), 0);
}

TEST(ProgressBoard, ShowsCollectivesGroupByGroup) {
  ProgressBoard board(1);
  const auto rank = board.of(0);
  const int tp = rank->add_group("tp[0,1]"), dp = rank->add_group("dp[0,2]");
  i64 value = 0;
  TensorArg input{.address = &value, .dtype = DType::fp32, .rank = 2, .shape = {2, 3}};
  rank->begin_collective(dp, CollectiveKind::exchange, "rows", {}, 24);
  rank->begin_collective(tp, CollectiveKind::all_reduce, "a", input, 24);
  rank->begin_collective(tp, CollectiveKind::barrier, "b", {}, 0);
  EXPECT_THAT(board.of(0)->collectives(),
              ElementsAre("tp[0,1] #0 all_reduce a fp32 [2, 3]",
                          "tp[0,1] #1 barrier b 0 bytes",
                          "dp[0,2] #0 exchange rows 24 bytes"));
}

TEST(ProgressBoard, OfAnotherStarterIsTheRanksAlone) {
  const ProgressBoard board(-1, 3);
  const auto rank = board.of(0);
  rank->begin_action("an action", "");
  EXPECT_THAT(rank->actions(), ElementsAre("an action"));
  EXPECT_THAT(board.of(0)->actions(), IsEmpty());
}

}  // namespace progress_board_test
}  // namespace tessera
