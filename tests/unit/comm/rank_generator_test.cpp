#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "tessera/error.hpp"
#include "tessera/mesh.hpp"
#include "tests/common/error_of.hpp"

namespace tessera {
namespace rank_generator_test {

using Groups = std::vector<std::vector<i64>>;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(const Layout& layout) {
  try {
    const RankGenerator made(layout);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "no error";
}

// The worked examples of the rank generator.

TEST(RankGenerator, DenseExample) {
  const RankGenerator ranks({.world = 16, .tensor = 4, .pipeline = 2});
  EXPECT_EQ(ranks.size(Axis::data), 2);
  EXPECT_EQ(ranks.groups("tp"),
            (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}));
  EXPECT_EQ(ranks.groups("dp"),
            (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  EXPECT_EQ(ranks.groups("pp"),
            (Groups{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}));
  EXPECT_EQ(ranks.groups("cp").size(), 16U);
}

TEST(RankGenerator, ExpertExample) {
  const RankGenerator ranks(
      {.world = 16, .tensor = 4, .pipeline = 2, .expert = 4, .expert_tensor = 1});
  EXPECT_EQ(ranks.size(Axis::expert_data), 2);
  EXPECT_EQ(ranks.groups("ep"),
            (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}));
  EXPECT_EQ(ranks.groups("edp"),
            (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  EXPECT_EQ(ranks.groups("etp").size(), 16U);
  EXPECT_EQ(ranks.groups("pp").front(), (std::vector<i64>{0, 8}));
}

TEST(RankGenerator, ContextExample) {
  const RankGenerator ranks(
      {.world = 16, .tensor = 2, .context = 2, .pipeline = 2, .expert = 4, .expert_tensor = 1});
  EXPECT_EQ(ranks.groups("dp")[0], (std::vector<i64>{0, 4}));
  EXPECT_EQ(ranks.groups("dp")[1], (std::vector<i64>{1, 5}));
  EXPECT_EQ(ranks.groups("cp")[0], (std::vector<i64>{0, 2}));
  EXPECT_EQ(ranks.groups("dp-cp")[0], (std::vector<i64>{0, 2, 4, 6}));
  EXPECT_EQ(ranks.groups("cp-dp"), ranks.groups("dp-cp")) << "the order decides, not the name";
  EXPECT_EQ(ranks.groups("ep")[0], (std::vector<i64>{0, 1, 2, 3}));
  EXPECT_EQ(ranks.groups("edp")[0], (std::vector<i64>{0, 4}));
}

TEST(RankGenerator, FoldingPutsContextAndExpertsOnTheSameRanks) {
  const RankGenerator ranks({.world = 8, .context = 8, .expert = 8});
  const Groups all = {{0, 1, 2, 3, 4, 5, 6, 7}};
  EXPECT_EQ(ranks.groups("cp"), all);
  EXPECT_EQ(ranks.groups("ep"), all);
}

TEST(RankGenerator, ExpertTensorDefaultsToTensor) {
  const RankGenerator ranks({.world = 8, .tensor = 2, .expert = 2});
  EXPECT_EQ(ranks.layout().expert_tensor, 2);
  EXPECT_EQ(ranks.groups("etp"), ranks.groups("tp"));
  EXPECT_EQ(ranks.groups("ep"), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(ranks.groups("edp"), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(ranks.groups("etp-ep-edp").size(), 1U);
}

TEST(RankGenerator, FirstNameOfTheOrderVariesFastest) {
  const RankGenerator ranks({.world = 8, .tensor = 2, .pipeline = 2, .order = "dp-ep-tp-pp"});
  EXPECT_EQ(ranks.groups("dp"), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(ranks.groups("tp"), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  // Members by dp first, then tp; groups in the order of what is left.
  EXPECT_EQ(ranks.groups("tp-dp"), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(ranks.groups("tp-pp"), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
}

TEST(RankGenerator, PipelineNeedNotBeLast) {
  const RankGenerator ranks({.world = 8, .tensor = 2, .pipeline = 2, .order = "tp-pp-dp"});
  EXPECT_EQ(ranks.groups("pp"), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(ranks.groups("dp"), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(RankGenerator, AxesOfSizeOneMayBeLeftOut) {
  const RankGenerator named({.world = 8, .tensor = 2, .pipeline = 2});
  const RankGenerator unnamed({.world = 8, .tensor = 2, .pipeline = 2, .order = "tp-dp-pp"});
  for (const char* axes : {"tp", "cp", "dp", "pp", "etp", "ep", "edp"}) {
    EXPECT_EQ(named.groups(axes), unnamed.groups(axes)) << axes;
  }
}

// Computes the definition the other way round: from coordinates to ranks.
TEST(RankGenerator, RanksAreTheSumOfCoordinatesTimesStrides) {
  const RankGenerator ranks(
      {.world = 48, .tensor = 2, .context = 2, .pipeline = 3, .expert = 4, .expert_tensor = 1});
  const i64 tp = 2, cp = 2, dp = 4, ep = 4, edp = 4;
  for (i64 rank = 0; rank < 48; ++rank) {
    const auto at = [&](Axis axis) { return ranks.coordinate(rank, axis); };
    EXPECT_EQ(at(Axis::tensor) + at(Axis::context) * tp + at(Axis::data) * tp * cp +
                  at(Axis::pipeline) * tp * cp * dp,
              rank);
    EXPECT_EQ(at(Axis::expert_tensor) + at(Axis::expert) + at(Axis::expert_data) * ep +
                  at(Axis::pipeline) * ep * edp,
              rank);
  }
}

// Whatever the order, groups cut the world, differ along their axes only, and agree with
// coordinate().
TEST(RankGenerator, EveryOrderCutsTheWorld) {
  std::vector<std::string> names = {"cp", "dp", "ep", "pp", "tp"};
  int tried = 0;
  do {
    std::string order = names[0];
    for (std::size_t i = 1; i < names.size(); ++i) order += "-" + names[i];
    Layout layout{.world = 48, .tensor = 2, .context = 3, .pipeline = 2, .order = order};
    if (!order.ends_with("pp")) layout.pipeline = 1;
    const RankGenerator ranks(layout);
    ++tried;
    for (int a = 0; a < 4; ++a) {
      const std::array<Axis, 1> axis = {static_cast<Axis>(a)};
      std::set<i64> seen;
      for (const auto& group : ranks.groups(axis)) {
        ASSERT_EQ(static_cast<i64>(group.size()), ranks.size(axis[0])) << order;
        ASSERT_TRUE(std::is_sorted(group.begin(), group.end())) << order;
        for (std::size_t i = 0; i < group.size(); ++i) {
          seen.insert(group[i]);
          ASSERT_EQ(ranks.coordinate(group[i], axis[0]), static_cast<i64>(i)) << order;
          for (int other = 0; other < 4; ++other) {
            if (other == a) continue;
            ASSERT_EQ(ranks.coordinate(group[i], static_cast<Axis>(other)),
                      ranks.coordinate(group[0], static_cast<Axis>(other)))
                << order;
          }
        }
      }
      ASSERT_EQ(seen.size(), 48U) << order;
    }
  } while (std::next_permutation(names.begin(), names.end()));
  EXPECT_EQ(tried, 120);
}

TEST(RankGenerator, SizesThatDoNotDivide) {
  EXPECT_EQ(error_of({.world = 16, .tensor = 3}),
            "world size 16 is not divisible by tp·cp·pp = 3·1·1 = 3, so dp has no whole size");
  EXPECT_EQ(error_of({.world = 16, .tensor = 4, .pipeline = 2, .expert = 3, .expert_tensor = 1}),
            "world size 16 is not divisible by etp·ep·pp = 1·3·2 = 6, so edp has no whole size");
  EXPECT_EQ(error_of({.world = 8, .tensor = 4, .context = 4}),
            "world size 8 is not divisible by tp·cp·pp = 4·4·1 = 16, so dp has no whole size");
}

TEST(RankGenerator, ImpossibleSizes) {
  EXPECT_EQ(error_of({.world = 0}), "world size 0 is not between 1 and 1048576");
  EXPECT_EQ(error_of({.world = i64{1} << 40}),
            "world size 1099511627776 is not between 1 and 1048576");
  EXPECT_EQ(error_of({.world = 4, .tensor = 0}), "tp = 0: a parallel size is at least 1");
  EXPECT_EQ(error_of({.world = 4, .context = -2}), "cp = -2: a parallel size is at least 1");
  EXPECT_EQ(error_of({.world = 4, .pipeline = 8}), "pipeline = 8 needs 8 ranks; there are 4");
  EXPECT_EQ(error_of({.world = 4, .expert_tensor = -1}), "etp = -1: a parallel size is at least 1");
  EXPECT_EQ(error_of({.world = 4, .expert = i64{1} << 62}),
            "expert = 4611686018427387904 needs 4611686018427387904 ranks; there are 4");
}

TEST(RankGenerator, BadOrders) {
  EXPECT_EQ(error_of({.world = 8, .order = "tp-xp-dp"}),
            "order \"tp-xp-dp\": unknown axis \"xp\"; known are tp, cp, ep, dp, pp");
  EXPECT_EQ(error_of({.world = 8, .order = "tp-x\ny"}),
            "order \"tp-x\\ny\": unknown axis \"x\\ny\"; known are tp, cp, ep, dp, pp");
  EXPECT_THAT(error_of({.world = 8, .order = ""}), HasSubstr("unknown axis \"\""));
  EXPECT_THAT(error_of({.world = 8, .order = "tp-dp-"}), HasSubstr("unknown axis \"\""));
  EXPECT_EQ(error_of({.world = 8, .order = "tp-dp-tp"}), "order \"tp-dp-tp\" names tp twice");
  EXPECT_EQ(error_of({.world = 8, .tensor = 2, .order = "dp-pp"}),
            "order \"dp-pp\" leaves out tp, but tp = 2");
  EXPECT_EQ(error_of({.world = 8, .tensor = 2, .order = "tp-pp"}),
            "order \"tp-pp\" leaves out dp, but dp = 4");
  EXPECT_EQ(error_of({.world = 8, .expert = 2, .order = "tp-cp-dp-pp"}),
            "order \"tp-cp-dp-pp\" leaves out ep, but ep = 2");
}

TEST(RankGenerator, PipelinesOfTheTwoPartsMustAgree) {
  EXPECT_EQ(error_of({.world = 16,
                      .tensor = 2,
                      .pipeline = 2,
                      .expert = 4,
                      .expert_tensor = 1,
                      .order = "tp-cp-ep-pp-dp"}),
            "order \"tp-cp-ep-pp-dp\" does not end in pp, so dp and edp must be equal, but dp = 4 "
            "and edp = 2 (world size 16, pp = 2, tp·cp·dp = 2·1·4, etp·ep·edp = 1·4·2)");
  // dp = edp, and yet the pipelines differ: cp lies inside pp, ep outside.
  EXPECT_EQ(error_of({.world = 8,
                      .context = 2,
                      .pipeline = 2,
                      .expert = 2,
                      .expert_tensor = 1,
                      .order = "tp-cp-pp-ep-dp"}),
            "order \"tp-cp-pp-ep-dp\": pipeline group 0 is [0, 2] for the dense part and [0, 1] "
            "for the experts; put pp last in the order (world size 8, pp = 2, tp·cp·dp = 1·2·2, "
            "etp·ep·edp = 1·2·2)");
  EXPECT_EQ(error_of({.world = 16,
                      .tensor = 2,
                      .pipeline = 2,
                      .expert = 2,
                      .expert_tensor = 1,
                      .order = "tp-cp-ep-pp-dp"}),
            "no error");
}

TEST(RankGenerator, AnErrorTellsWhichMemberIsToBeChanged) {
  const auto member = [](const Layout& layout) -> std::string {
    try {
      const RankGenerator made(layout);
    } catch (const LayoutError& error) {
      return error.member();
    }
    return "no error";
  };
  EXPECT_EQ(member({.world = 0}), "world");
  EXPECT_EQ(member({.world = 4, .tensor = 0}), "tensor");
  EXPECT_EQ(member({.world = 4, .context = 8}), "context");
  EXPECT_EQ(member({.world = 4, .expert_tensor = 8}), "expert_tensor");
  EXPECT_EQ(member({.world = 4, .order = "tp-xp"}), "order");
  EXPECT_EQ(member({.world = 8, .tensor = 2, .order = "dp-pp"}), "order");
  EXPECT_EQ(member({.world = 8, .pipeline = 3}), "pipeline");
  EXPECT_EQ(member({.world = 8, .tensor = 2, .expert = 3}), "expert");
  EXPECT_EQ(member({.world = 8, .tensor = 2, .expert_tensor = 3}), "expert_tensor");
  EXPECT_EQ(member({.world = 8}), "no error");
}

TEST(RankGenerator, GroupsThatDoNotExist) {
  const RankGenerator ranks({.world = 8, .tensor = 2});
  const auto error = [&](std::string_view axes) -> std::string {
    return testing::error_of([&] { ranks.groups(axes); });
  };
  EXPECT_EQ(error("tp-ep"),
            "no group along both tp and ep: tp, cp, dp arrange the dense part, etp, ep, edp the "
            "experts, pp both");
  EXPECT_THAT(error("pp-edp-cp"), HasSubstr("no group along both edp and cp"));
  EXPECT_EQ(error("pp-tp"), "");
  EXPECT_EQ(error("etp-pp"), "");
  EXPECT_EQ(error("tp-dp-tp"), "axis tp is given twice for one group");
  EXPECT_THAT(error("tensor"),
              AllOf(HasSubstr("unknown axis \"tensor\""), HasSubstr("tp, cp, dp, pp, etp")));
  EXPECT_EQ(error(""), "group \"\": unknown axis \"\"; known are tp, cp, dp, pp, etp, ep, edp");
  EXPECT_THROW(ranks.groups(std::span<const Axis>{}), Error);
  EXPECT_THROW(ranks.coordinate(8, Axis::tensor), Error);
  EXPECT_THROW(ranks.coordinate(-1, Axis::tensor), Error);
}

}  // namespace rank_generator_test
}  // namespace tessera
