#include "kernel/train/setup/own_units.hpp"

#include <gtest/gtest.h>

#include "tests/unit/config/config_support.hpp"

namespace tessera {
namespace own_units_test {

using testing::error_of;

std::string of_host(int units, i64 ranks, i64 share) {
  return error_of([&] {
    require_enough_units("gpu", {units, std::to_string(units) + " are visible"}, ranks, share);
  });
}

TEST(OwnUnits, AreAsManyAsRanks) {
  EXPECT_EQ(of_host(2, 2, 1), "");
  EXPECT_EQ(of_host(2, 4, 2), "");
  EXPECT_EQ(of_host(2, 5, 1),
            "device \"gpu\" has no unit for each of 5 ranks: 2 are visible; start at most 2, or "
            "let 3 ranks have one (device.share = 3)");
  EXPECT_EQ(of_host(2, 5, 2),
            "device \"gpu\" has no unit for each of 5 ranks: 2 are visible, for 2 ranks each "
            "(device.share); start at most 4, or let 3 ranks have one (device.share = 3)");
  EXPECT_EQ(of_host(0, 1, 4),
            "device \"gpu\": 0 are visible; choose another device (device.type = \"cpu\")");
}

TEST(OwnUnits, BelongToOneRankEach) {
  const std::vector<std::string> texts = {"GPU 0 of a", "GPU 1 of a", "GPU 0 of a", "GPU 0 of b"};
  const auto of = [&](const std::vector<std::string>& ids, i64 share) {
    return error_of([&] { require_own_units(ids, texts, share); });
  };
  EXPECT_EQ(of({"a0", "a1", "a2", "b0"}, 1), "");
  EXPECT_EQ(of({"a0", "a1", "a0", "b0"}, 2), "");
  EXPECT_EQ(of({"a0", "a1", "a0", "b0"}, 1),
            "ranks 0, 2 compute on the same hardware: GPU 0 of a; start each where it sees one of "
            "its own, or let 2 ranks have one (device.share = 2)");
  EXPECT_EQ(of({"b0", "a0", "a0", "a0"}, 2),
            "ranks 1, 2, 3 compute on the same hardware: GPU 1 of a; start each where it sees one "
            "of its own, or let 3 ranks have one (device.share = 3)");
}

TEST(OwnUnits, AreCountedByRank) {
  EXPECT_EQ(units_per_rank({"a", "b"}), 1);
  EXPECT_EQ(units_per_rank({"a", "a", "b", "b"}), 0.5);
  EXPECT_EQ(units_per_rank({"a", "a", "b"}), 2.0 / 3);
}

}  // namespace own_units_test
}  // namespace tessera
