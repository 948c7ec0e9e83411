// Which elements of a logical tensor a rank stores.
#include "tessera/parameter.hpp"

#include <gmock/gmock.h>

#include <numeric>
#include <set>

#include "tessera/error.hpp"
#include "tests/common/error_of.hpp"

namespace tessera {
namespace parameter_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Mesh mesh_of(i64 tensor, i64 data, i64 rank) {
  Layout layout;
  layout.world = tensor * data;
  layout.tensor = tensor;
  return {RankGenerator(layout), rank};
}

Parameter parameter_of(const Shape& logical, const std::vector<Split>& split, const Mesh& mesh) {
  Parameter p;
  p.name = "p";
  p.logical = logical;
  p.layout = ParameterLayout(logical, split, Placement::replicated(), mesh);
  p.local = p.layout.storage();
  return p;
}

bool same(const Slice& a, const Slice& b) {
  return a.local == b.local && a.logical == b.logical && a.length == b.length;
}
MATCHER_P3(IsSlice, local, logical, length, "") { return same(arg, Slice{local, logical, length}); }

TEST(SplitStorage, DividesOrPads) {
  EXPECT_EQ(split_storage({0, Axis::tensor}, 12, 4), 3);
  EXPECT_EQ(split_storage({0, Axis::tensor, {4, 4, 4}}, 12, 2), 6);
  EXPECT_EQ(split_storage({0, Axis::tensor, {}, 8}, 257, 1), 264);
  EXPECT_EQ(split_storage({0, Axis::tensor, {}, 8}, 257, 2), 136);
  EXPECT_EQ(split_storage({0, Axis::tensor, {}, 128}, 257, 4), 128);
  EXPECT_EQ(split_storage({0, Axis::tensor, {}, 1}, 257, 4), 65);
}

TEST(ParameterLayout, RefusesSplitsThatExcludeEachOther) {
  const Mesh mesh = mesh_of(2, 1, 0);
  const auto error = [&](const std::vector<Split>& split) {
    return testing::error_of([&] { parameter_of({4, 6}, split, mesh); });
  };
  EXPECT_EQ(error({{0, Axis::expert}, {1, Axis::tensor}}), "");
  EXPECT_EQ(error({{0, Axis::tensor}, {1, Axis::tensor}}), "[4, 6] is split along tp twice");
  EXPECT_EQ(error({{0, Axis::expert}, {0, Axis::expert_tensor}}),
            "dimension 0 of [4, 6] is split along two axes");
  EXPECT_EQ(error({{2, Axis::tensor}}), "a split of dimension 2 of [4, 6]");
  EXPECT_EQ(error({{-1, Axis::tensor}}), "a split of dimension -1 of [4, 6]");
}

TEST(SplitStorage, SaysWhatDoesNotDivide) {
  EXPECT_THAT(
      [] {
        split_storage({1, Axis::tensor}, 10, 4);
      },
      ThrowsMessage<ConfigError>("dimension 1 of size 10 does not divide among 4 ranks of "
                                 "axis tp"));
  EXPECT_THAT(
      [] {
        split_storage({0, Axis::tensor, {8, 2, 2}}, 12, 4);
      },
      ThrowsMessage<ConfigError>(HasSubstr("of size 2 does not divide")));
  EXPECT_THAT(
      [] {
        split_storage({0, Axis::tensor, {8, 2}}, 12, 2);
      },
      ThrowsMessage<Error>("sections of 10 elements cut a dimension of 12"));
  EXPECT_THAT(
      [] {
        split_storage({0, Axis::tensor, {6, 6}, 8}, 12, 2);
      },
      ThrowsMessage<Error>("a dimension with sections cannot be padded"));
}

TEST(SplitSlices, CutsEachSectionOnItsOwn) {
  const Split split{0, Axis::tensor, {8, 4, 4}};
  EXPECT_THAT(split_slices(split, 16, 1, 2),
              ElementsAre(IsSlice(0, 4, 4), IsSlice(4, 10, 2), IsSlice(6, 14, 2)));
}

TEST(SplitSlices, LeavesPaddingOut) {
  const Split split{0, Axis::tensor, {}, 128};
  EXPECT_THAT(split_slices(split, 257, 1, 4), ElementsAre(IsSlice(0, 128, 128)));
  EXPECT_THAT(split_slices(split, 257, 2, 4), ElementsAre(IsSlice(0, 256, 1)));
  EXPECT_TRUE(split_slices(split, 257, 3, 4).empty());
}

struct CutCase {
  Shape logical;
  std::vector<Split> split;
};

class Runs : public ::testing::TestWithParam<CutCase> {};

// Compares with one loop over all logical elements.
TEST_P(Runs, CoverEveryLogicalElementOnceAndNoPadding) {
  const auto& [logical, split] = GetParam();
  for (const i64 ranks : {1, 2, 4}) {
    std::multiset<i64> covered;
    for (i64 rank = 0; rank < ranks; ++rank) {
      const Mesh mesh = mesh_of(ranks, 1, rank);
      const Parameter p = parameter_of(logical, split, mesh);
      std::set<i64> local;
      for (const ElementRun& run : p.layout.runs()) {
        EXPECT_GT(run.length, 0);
        EXPECT_LE(run.local + run.length, p.local.elements());
        for (i64 i = 0; i < run.length; ++i) {
          EXPECT_TRUE(local.insert(run.local + i).second) << "stored twice";
          covered.insert(run.logical + i);
        }
      }
    }
    const auto n = static_cast<std::size_t>(logical.elements());
    EXPECT_EQ(covered.size(), split.empty() ? n * static_cast<std::size_t>(ranks) : n);
    EXPECT_EQ(std::set<i64>(covered.begin(), covered.end()).size(), n);
  }
}

INSTANTIATE_TEST_SUITE_P(Cuts,
                         Runs,
                         ::testing::Values(CutCase{{12}, {}},
                                           CutCase{{12}, {{0, Axis::tensor}}},
                                           CutCase{{8, 6}, {{0, Axis::tensor}}},
                                           CutCase{{6, 8}, {{1, Axis::tensor}}},
                                           CutCase{{24, 5}, {{0, Axis::tensor, {8, 8, 8}}}},
                                           CutCase{{3, 16, 2}, {{1, Axis::tensor, {12, 4}}}},
                                           CutCase{{13, 3}, {{0, Axis::tensor, {}, 4}}},
                                           CutCase{{5, 2}, {{0, Axis::tensor, {}, 8}}}));

TEST(Runs, JoinWhatLiesTogether) {
  const Mesh mesh = mesh_of(2, 1, 1);
  EXPECT_EQ(parameter_of({8, 6}, {{0, Axis::tensor}}, mesh).layout.runs().size(), 1U);
  const auto columns = parameter_of({8, 6}, {{1, Axis::tensor}}, mesh).layout.runs();
  ASSERT_EQ(columns.size(), 8U);
  EXPECT_EQ(columns[2].local, 6);
  EXPECT_EQ(columns[2].logical, 15);
  EXPECT_EQ(columns[2].length, 3);
}

TEST(Represents, EachElementIsCountedOnce) {
  for (const bool cut : {false, true}) {
    i64 counted = 0;
    for (i64 rank = 0; rank < 6; ++rank) {
      const Mesh mesh = mesh_of(2, 3, rank);
      const Parameter p = parameter_of(
          {8}, cut ? std::vector<Split>{{0, Axis::tensor}} : std::vector<Split>{}, mesh);
      if (p.layout.saved()) counted += p.local.elements();
    }
    EXPECT_EQ(counted, 8);
  }
}

// Experts have replicas of their own, and the declared axes decide, not their sizes.
TEST(Layouts, SayWhoCountsAndSaves) {
  const auto layout_of = [](const std::vector<Split>& split, i64 rank) {
    const Mesh mesh(RankGenerator({.world = 8, .tensor = 2, .expert = 2, .expert_tensor = 1}),
                    rank);
    return ParameterLayout({8}, split, Placement::replicated(), mesh);
  };
  for (const auto& split : {std::vector<Split>{}, {{0, Axis::tensor}}, {{0, Axis::expert}}}) {
    std::vector<int> saved(8, 0);
    for (i64 rank = 0; rank < 8; ++rank) {
      const ParameterLayout layout = layout_of(split, rank);
      for (const ElementRun& run : layout.runs()) {
        for (i64 i = 0; i < run.length; ++i) {
          saved[static_cast<std::size_t>(run.logical + i)] += layout.saved() ? 1 : 0;
        }
      }
    }
    EXPECT_THAT(saved, ::testing::Each(1));
  }
  EXPECT_TRUE(layout_of({{0, Axis::expert_tensor}}, 0).expert());
  EXPECT_FALSE(layout_of({{0, Axis::tensor}}, 0).expert());
}

TEST(Layouts, OfWhatSeveralStagesHoldTheFirstCounts) {
  for (i64 rank = 0; rank < 3; ++rank) {
    const Mesh mesh(RankGenerator({.world = 3, .pipeline = 3}), rank);
    const ParameterLayout layout({4}, {}, Placement::replicated(), mesh, {2, 0});
    EXPECT_TRUE(layout.shared());
    EXPECT_EQ(layout.counted(), rank == 2);
    EXPECT_EQ(layout.saved(), rank == 2);
  }
}

// A tensor that belongs to a parameter is cut as that is, and each of its elements has one saver.
TEST(Layouts, OfStateFollowTheParameter) {
  const Shape shape = {4, 6, 8};
  const std::vector<Split> split = {{0, Axis::expert}, {2, Axis::expert_tensor}};
  const StateShape shapes[] = {{{4, 0}, {6, 1}}, {{4, 0}, {8, 2}}, {{6}, {6}}, {}};
  const Shape local[] = {{2, 6}, {2, 4}, {6, 6}, {}};
  for (std::size_t s = 0; s < std::size(shapes); ++s) {
    std::vector<int> saved;
    for (i64 rank = 0; rank < 8; ++rank) {
      const Mesh mesh(RankGenerator({.world = 8, .tensor = 2, .expert = 2, .expert_tensor = 2}),
                      rank);
      const ParameterLayout whole(shape, split, Placement::replicated(), mesh);
      const ParameterLayout state = whole.of_state(shapes[s], mesh);
      EXPECT_EQ(state.storage(), local[s]);
      EXPECT_TRUE(state.expert()) << "its copies are where the parameter's are";
      saved.resize(static_cast<std::size_t>(state.logical().elements()), 0);
      for (const ElementRun& run : state.runs()) {
        for (i64 i = 0; i < run.length; ++i) {
          saved[static_cast<std::size_t>(run.logical + i)] += state.saved() ? 1 : 0;
        }
      }
    }
    EXPECT_THAT(saved, ::testing::Each(1)) << s;
  }
}

TEST(Layouts, OfStateWithAnotherSizeAreRefused) {
  const Mesh mesh = mesh_of(2, 1, 0);
  const Parameter p = parameter_of({6, 4}, {{0, Axis::tensor}}, mesh);
  EXPECT_EQ(p.layout.cut_dim(Axis::tensor), 0);
  EXPECT_EQ(p.layout.cut_dim(Axis::expert), -1);
  EXPECT_THAT(
      [&] {
        (void)p.layout.of_state({{4, 0}}, mesh);
      },
      ThrowsMessage<Error>("dimension 0 of 4 elements lies along dimension 0 of [6, 4]"));
  EXPECT_THAT(
      [&] {
        (void)p.layout.of_state({{6, 2}}, mesh);
      },
      ThrowsMessage<Error>("dimension 0 of 6 elements lies along dimension 2 of [6, 4]"));
  EXPECT_THAT([&] { (void)p.layout.of_state({{0}}, mesh); },
              ThrowsMessage<Error>("dimension 0 has 0 elements"));
}

}  // namespace parameter_test
}  // namespace tessera
