#include "kernel/comm/launch_order.hpp"

#include <gmock/gmock.h>

#include "tessera/error.hpp"
#include "tests/common/error_of.hpp"

namespace tessera {
namespace launch_order_test {

GroupSpec tensor(CommLane lane = CommLane::critical) {
  return {.name = "tp[0,1]", .members = {0, 1}, .id = 1, .lane = lane};
}
GroupSpec context() { return {.name = "tp-cp[0,1,2,3]", .members = {0, 1, 2, 3}, .id = 2}; }

void launch(LaunchOrder& order,
            i64 rank,
            const GroupSpec& group,
            std::string_view name,
            CollectiveKind kind = CollectiveKind::all_reduce) {
  Collective collective;
  collective.kind = kind;
  collective.name = name;
  order.launched(rank, group, collective);
}

void exchange(
    LaunchOrder& order, i64 rank, const GroupSpec& group, std::string_view name, int to, int from) {
  Collective collective;
  collective.kind = CollectiveKind::exchange;
  collective.name = name;
  collective.sends.push_back({to, {}});
  collective.receives.push_back({from, {}});
  order.launched(rank, group, collective);
}

std::string problem(const LaunchOrder& order) {
  return testing::error_of([&] { order.check(); });
}

TEST(LaunchOrders, RanksThatShareTwoGroupsOfALaneLaunchInOneOrder) {
  LaunchOrder order;
  launch(order, 0, tensor(), "mlp");
  launch(order, 0, context(), "norm");
  launch(order, 1, context(), "norm");
  launch(order, 1, tensor(), "mlp");
  EXPECT_EQ(problem(order),
            "ranks 0 and 1 do not launch their common collectives of lane \"critical\" in one "
            "order: as number 0, rank 0 launches all_reduce \"mlp\" of tp[0,1], rank 1 launches "
            "all_reduce \"norm\" of tp-cp[0,1,2,3]");
}

TEST(LaunchOrders, LanesAreIndependent) {
  LaunchOrder order;
  launch(order, 0, tensor(CommLane::bulk), "mlp");
  launch(order, 0, context(), "norm");
  launch(order, 1, context(), "norm");
  launch(order, 1, tensor(CommLane::bulk), "mlp");
  EXPECT_EQ(problem(order), "");
}

TEST(LaunchOrders, OnlyCommonGroupsCount) {
  LaunchOrder order;
  launch(order, 0, tensor(), "mlp");
  launch(order, 0, context(), "norm");
  launch(order, 2, context(), "norm");
  launch(order, 2, {.name = "tp[2,3]", .members = {2, 3}, .id = 3}, "mlp");
  launch(order, 2, context(), "only two ends", CollectiveKind::exchange);
  EXPECT_EQ(problem(order), "");
  launch(order, 2, context(), "another norm");
  EXPECT_THAT(problem(order),
              ::testing::EndsWith("as number 1, rank 0 launches nothing more, rank 2 launches "
                                  "all_reduce \"another norm\" of tp-cp[0,1,2,3]"));
}

TEST(LaunchOrders, AnExchangeCountsForTheRanksThatItHasPartsFor) {
  // A ring of four: a rank sends to the next one and receives from the last one.
  LaunchOrder order;
  for (const int rank : {0, 1, 2}) {
    exchange(order, rank, context(), "hop", (rank + 1) % 4, (rank + 3) % 4);
  }
  EXPECT_EQ(problem(order), "");  // ranks 0 and 2 exchange nothing
  launch(order, 0, tensor(), "mlp");
  exchange(order, 0, context(), "second hop", 1, 3);
  exchange(order, 1, context(), "second hop", 2, 0);
  exchange(order, 2, context(), "second hop", 3, 1);
  launch(order, 1, tensor(), "mlp");
  EXPECT_EQ(problem(order),
            "ranks 0 and 1 do not launch their common collectives of lane \"critical\" in one "
            "order: as number 1, rank 0 launches all_reduce \"mlp\" of tp[0,1], rank 1 launches "
            "exchange \"second hop\" of tp-cp[0,1,2,3]");
}

TEST(LaunchOrders, ExchangesBetweenStagesAreThePlansVerifiers) {
  const GroupSpec stages{.name = "pp[0,1]", .members = {0, 1}, .id = 4, .lane = CommLane::exchange};
  LaunchOrder order;
  exchange(order, 0, stages, "activations", 1, 1);
  launch(order, 1, stages, "bits", CollectiveKind::broadcast);
  launch(order, 0, stages, "bits", CollectiveKind::broadcast);
  exchange(order, 1, stages, "gradients", 0, 0);
  EXPECT_EQ(problem(order), "");
}

}  // namespace launch_order_test
}  // namespace tessera
