#include "kernel/launch/progress_board.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tessera/error.hpp"

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

// A rank of `tessera eval --seeds` makes its groups anew for each model.
TEST(ProgressBoard, GivesPlacesOfGroupsThatAreGoneToOthers) {
  ProgressBoard board(1);
  const auto rank = board.of(0);
  const int tp = rank->add_group("tp[0,1]");
  for (int i = 1; i < 16; ++i) rank->add_group("group " + std::to_string(i));
  EXPECT_THROW(rank->add_group("one more"), Error);
  rank->begin_collective(tp, CollectiveKind::barrier, "a", {}, 0);
  rank->begin_collective(tp, CollectiveKind::barrier, "b", {}, 0);
  rank->release_group(tp);
  EXPECT_THAT(board.of(0)->collectives(),
              ElementsAre("tp[0,1] #0 barrier a 0 bytes", "tp[0,1] #1 barrier b 0 bytes"));
  EXPECT_EQ(rank->add_group("another"), tp);
  EXPECT_THAT(rank->collectives(), IsEmpty());
  EXPECT_THROW(rank->add_group("one more"), Error);
  rank->begin_collective(tp, CollectiveKind::barrier, "c", {}, 0);
  EXPECT_THAT(board.of(0)->collectives(), ElementsAre("another #0 barrier c 0 bytes"));
}

TEST(ProgressBoard, GivesAGroupThePlaceOfItsName) {
  ProgressBoard board(1);
  const auto rank = board.of(0);
  const std::string wide(100, 'x');  // longer than the record keeps
  const int dp = rank->add_group("dp[0,1]"), tp = rank->add_group("tp[0,1]");
  const int cut = rank->add_group(wide);
  EXPECT_NE(rank->add_group("tp[0,1]"), tp);  // there are two at once
  for (const int place : {dp, tp, cut}) rank->release_group(place);
  EXPECT_EQ(rank->add_group(wide), cut);
  EXPECT_EQ(rank->add_group("tp[0,1]"), tp);
  EXPECT_EQ(rank->add_group("dp[0,1]"), dp);
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
