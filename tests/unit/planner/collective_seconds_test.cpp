#include "kernel/planner/collective_seconds.hpp"

#include <gmock/gmock.h>

namespace tessera {
namespace collective_seconds_test {

std::vector<i64> ranks(i64 count) {
  std::vector<i64> members;
  for (i64 i = 0; i < count; ++i) members.push_back(i);
  return members;
}

Collective all_reduce(i64 elements) {
  static float none = 0;
  Collective collective;
  collective.kind = CollectiveKind::all_reduce;
  collective.input.address = &none;
  collective.input.dtype = DType::fp32;
  collective.input.rank = 1;
  collective.input.shape[0] = elements;
  return collective;
}

TEST(CollectiveTimes, AreThoseOfARingForMuchAndOfATreeForLittle) {
  Hardware hardware;
  hardware.inside = {1e9, 1, 1e-6};
  const std::vector<i64> eight = ranks(8);
  const double much = collective_seconds(hardware, eight, 0, all_reduce(250'000'000));
  EXPECT_NEAR(much, 2.0 * 7 / 8 + 14e-6, 1e-9);
  EXPECT_NEAR(collective_seconds(hardware, eight, 0, all_reduce(1)), 2 * 3 * (1e-6 + 4e-9), 1e-12);
  Collective gather = all_reduce(250'000);
  gather.kind = CollectiveKind::all_gather;
  EXPECT_NEAR(collective_seconds(hardware, eight, 0, gather), 7 * (1e-6 + 1e-3), 1e-9);
  gather.kind = CollectiveKind::reduce_scatter;
  EXPECT_NEAR(collective_seconds(hardware, eight, 0, gather), 7 * (1e-6 + 1e-3 / 8), 1e-9);
}

// Four ranks on each of two hosts: 3 MB for the neighbours and 2 MB for the other host, to which
// all four share the way. The slower of both counts.
TEST(CollectiveTimes, OfTransfersWithinHostsAndBetweenThem) {
  Hardware hardware;
  hardware.ranks_per_host = 4;
  hardware.inside = {1e9, 1, 1e-6};
  hardware.between = {8e9, 1, 5e-6};
  const auto seconds = [&](int index, const Collective& exchange) {
    return collective_seconds(hardware, ranks(8), index, exchange);
  };
  Collective exchange;
  exchange.kind = CollectiveKind::exchange;
  const TensorArg megabyte = all_reduce(250'000).input;
  for (int peer = 1; peer <= 5; ++peer) exchange.sends.push_back({peer, megabyte});
  EXPECT_NEAR(seconds(0, exchange), 3e-3 + 1e-6, 1e-9);
  hardware.between.bandwidth = 2e9;
  EXPECT_NEAR(seconds(0, exchange), 2e-3 * 2 + 5e-6, 1e-9);
  exchange.receives.assign(20, {4, megabyte});
  EXPECT_NEAR(seconds(0, exchange), 20e-3 * 2 + 5e-6, 1e-9);
  EXPECT_NEAR(seconds(7, exchange), 20e-3 + 1e-6, 1e-9);
}

}  // namespace collective_seconds_test
}  // namespace tessera
