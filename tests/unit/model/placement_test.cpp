#include "kernel/model/placement.hpp"

#include <gtest/gtest.h>

#include "kernel/model/layout_string.hpp"
#include "tessera/error.hpp"
#include "tests/common/error_of.hpp"

namespace tessera {
namespace placement_test {

std::vector<ModelLayer> gpt(int blocks) {
  std::vector<ModelLayer> layers{{"embedding", ModelLayer::embedding}};
  for (int i = 0; i < blocks; ++i) layers.push_back({fmt::format("layers.{}", i)});
  layers.push_back({"head", ModelLayer::head});
  return layers;
}

std::vector<int> sizes(const std::vector<LayerRange>& ranges) {
  std::vector<int> out;
  int next = 0;
  for (const LayerRange& range : ranges) {
    EXPECT_EQ(range.first, next);
    next = range.last;
    out.push_back(range.last - range.first);
  }
  return out;
}

// The pipeline rank of each virtual stage, which go around `chunks` times.
std::vector<int> around(int ranks, int chunks = 1) {
  std::vector<int> list;
  for (int stage = 0; stage < ranks * chunks; ++stage) list.push_back(stage % ranks);
  return list;
}

std::string problem(int blocks, int ranks, const PlacementSection& placement, int chunks = 1) {
  return testing::error_of<ConfigError>(
      [&] { cut_layers(gpt(blocks), around(ranks, chunks), placement); });
}

using Stages = std::vector<std::string>;

TEST(LayoutString, RepeatsNestsAndIgnoresCommas) {
  EXPECT_EQ(parse_layout("Et*3|(tt|)*2,t L"), (Stages{"Ettt", "tt", "tt", "tL"}));
  EXPECT_EQ(parse_layout("((t|)*2)*2L"), (Stages{"t", "t", "t", "t", "L"}));
  EXPECT_EQ(parse_layout("E||L"), (Stages{"E", "", "L"}));
}

TEST(LayoutString, ErrorsShowThePlace) {
  const auto text = [](std::string_view layout) -> std::string {
    return testing::error_of<ConfigError>([&] { parse_layout(layout); });
  };
  EXPECT_EQ(text("Et*|L"),
            "[placement] layout = \"Et*|L\": \"*\" needs a positive number at character 4");
  EXPECT_EQ(text("E(tt"), "[placement] layout = \"E(tt\": \"(\" is not closed at character 5");
  EXPECT_EQ(text("Et)L"), "[placement] layout = \"Et)L\": \")\" without \"(\" at character 3");
  EXPECT_EQ(text("E\n").find('\n'), std::string::npos);
  EXPECT_NE(text("E\n").find("layout = \"E\\n\": unexpected \"\\n\"; E, t"), std::string::npos);
  EXPECT_NE(text("ExL").find("unexpected \"x\""), std::string::npos);
  EXPECT_NE(text("EtmL").find("multi-token"), std::string::npos);
  EXPECT_NE(text("(t*1000)*1000").find("too many"), std::string::npos);
}

TEST(Placement, EvenlyWithEmbeddingAndHeadAtTheEnds) {
  EXPECT_EQ(sizes(cut_layers(gpt(8), around(4), {})), (std::vector{3, 2, 2, 3}));
  EXPECT_EQ(sizes(cut_layers(gpt(5), around(1), {})), (std::vector{7}));
}

// The example of Megatron-Core: 14 layers, 4 stages, 3 first and 3 last.
TEST(Placement, FirstAndLastCounts) {
  PlacementSection p;
  p.first = 3;
  p.last = 3;
  const std::vector<LayerRange> ranges = cut_layers(gpt(14), around(4), p);
  EXPECT_EQ(sizes(ranges), (std::vector{4, 4, 4, 4}));
  EXPECT_EQ(ranges[1].first, 1 + 3);
  EXPECT_EQ(ranges[3].first, 1 + 11);
}

// Megatron's flags count the blocks of a pipeline rank, all its chunks together: 16 layers, 4
// ranks, 2 chunks, 2 first and 2 last leave rank 0 with the layers 0 and 8.
TEST(Placement, FirstAndLastAreOfAPipelineRankWithAllItsChunks) {
  PlacementSection p;
  p.first = p.last = 2;
  const std::vector<LayerRange> ranges = cut_layers(gpt(16), around(4, 2), p);
  EXPECT_EQ(sizes(ranges), (std::vector{2, 3, 3, 1, 1, 3, 3, 2}));
  EXPECT_EQ(ranges[4].first, 1 + 8);
  // In V form rank 0 holds both ends of the model, rank 1 its middle.
  const int vee[] = {0, 1, 1, 0};
  p = {};
  p.first = 2;
  EXPECT_EQ(sizes(cut_layers(gpt(8), vee, p)), (std::vector{2, 3, 3, 2}));
  p = {};
  p.count_embedding = p.count_head = true;
  EXPECT_EQ(sizes(cut_layers(gpt(6), vee, p)), (std::vector{2, 2, 2, 2}));
  p = {};
  p.first = 3;
  EXPECT_NE(problem(16, 4, p, 2)
                .find("first = 3 blocks of a pipeline rank do not divide among its 2 chunks"),
            std::string::npos);
  EXPECT_NE(problem(16, 1, p).find("first and last are for pipelines"), std::string::npos);
}

TEST(Placement, EmbeddingAndHeadCountAsBlocks) {
  PlacementSection p;
  p.count_embedding = p.count_head = true;
  EXPECT_EQ(sizes(cut_layers(gpt(6), around(4), p)), (std::vector{2, 2, 2, 2}));
}

TEST(Placement, ByLayout) {
  PlacementSection p;
  p.layout = "E|t*2|tttt|tL";
  EXPECT_EQ(sizes(cut_layers(gpt(7), around(4), p)), (std::vector{1, 2, 4, 2}));
  p.layout = "Ett||L";
  EXPECT_EQ(sizes(cut_layers(gpt(2), around(3), p)), (std::vector{3, 0, 1}));
}

// Depths that predict ahead are no blocks to deal out, and no letters: they are with the head.
TEST(Placement, WhatFollowsTheHeadIsWithIt) {
  std::vector<ModelLayer> layers = gpt(4);
  layers.push_back({"ahead.0", ModelLayer::ahead});
  layers.push_back({"ahead.0.head", ModelLayer::head});
  EXPECT_EQ(sizes(cut_layers(layers, around(2), {})), (std::vector{3, 5}));
  PlacementSection p;
  p.layout = "Et|t*3|L";
  EXPECT_EQ(sizes(cut_layers(layers, around(3), p)), (std::vector{2, 3, 3}));
  const auto problem = [&](std::string_view layout) {
    p.layout = layout;
    return testing::error_of<ConfigError>([&] { cut_layers(layers, around(3), p); });
  };
  EXPECT_NE(problem("Et|t*3|LL").find("\"L\" of stage 2 does not fit; the model is E, 4 × t, L"),
            std::string::npos);
  EXPECT_NE(problem("Et|t*3L|").find("stage 2 of 3 would hold no layer"), std::string::npos);
  EXPECT_NE(problem("Et|t|tt").find("places 5 of the model's 6"), std::string::npos);
}

TEST(Placement, ImpossibleOnesAreErrorsWithTheNumbers) {
  EXPECT_NE(problem(7, 4, {}).find("7 blocks do not divide among 4"), std::string::npos);
  PlacementSection p;
  p.first = 9;
  EXPECT_NE(problem(8, 2, p).find("first and last take 9 blocks; the model has 8"),
            std::string::npos);
  p = {};
  p.layout = "Et|tL";
  EXPECT_NE(problem(2, 4, p).find("has 2 stages"), std::string::npos);
  EXPECT_NE(problem(3, 2, p).find("\"L\" of stage 1"), std::string::npos);
  p.layout = "Et|t";
  EXPECT_NE(problem(2, 2, p).find("places 3 of the model's 4"), std::string::npos);
  p.layout = "EttL|||";
  EXPECT_NE(problem(2, 4, p).find("stage 3 of 4 would hold no layer"), std::string::npos);
  p.layout = "|EttL";
  EXPECT_NE(problem(2, 2, p).find("stage 0 of 2 would hold no layer"), std::string::npos);
  p.first = 1;
  EXPECT_NE(problem(2, 2, p).find("leave out"), std::string::npos);
}

class Vee final : public PipelineSchedule {
 public:
  explicit Vee(bool broken = false) : broken_(broken) {}
  int do_chunks() const override { return 2; }
  Place do_place(const PipelineShape& shape, int rank, int chunk) const override {
    return {chunk == 0 || broken_ ? rank : 2 * shape.ranks - 1 - rank};
  }
  int do_live(const PipelineShape&, int) const override { return 1; }
  std::vector<Action> do_order(const PipelineShape&) const override { return {}; }

 private:
  bool broken_;
};

TEST(StageMap, FollowsTheSchedulesPlaces) {
  const StageMap map = map_stages(Vee(), 2, gpt(4), {});
  ASSERT_EQ(map.stages.size(), 4U);
  const int ranks[] = {0, 1, 1, 0}, chunks[] = {0, 0, 1, 1};
  for (int s = 0; s < 4; ++s) {
    EXPECT_EQ(map.stages[static_cast<std::size_t>(s)].rank, ranks[s]);
    EXPECT_EQ(map.stages[static_cast<std::size_t>(s)].chunk, chunks[s]);
  }
  EXPECT_EQ(map.stage_of_layer(0), 0);
  EXPECT_EQ(map.stage_of_layer(5), 3);
  EXPECT_THROW(map_stages(Vee(true), 2, gpt(4), {}), Error);
}

}  // namespace placement_test
}  // namespace tessera
