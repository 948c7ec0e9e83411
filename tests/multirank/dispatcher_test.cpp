// Token dispatchers against the kit's check, and wrong ones that it has to find.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tessera/testing/dispatcher_check.hpp>
#include <tessera/testing/layer_check.hpp>

#include <filesystem>

#include "moe_mutants_support.hpp"

namespace tessera::testing {
namespace dispatcher_test {

LocalWorld& world() {
  static LocalWorld shared({std::filesystem::path(TESSERA_BUILD_DIR) / "plugins"});
  return shared;
}

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> kAll = {
      {},
      {.world = 2, .expert = 2},
      {.world = 4, .expert = 4},
      {.world = 4, .expert = 2},
      {.world = 2, .expert = 1, .expert_tensor = 2},
      {.world = 4, .expert = 2, .expert_tensor = 2},
      {.world = 4, .tensor = 2, .expert = 4, .expert_tensor = 1},
      {.world = 4, .expert = 2, .expert_tensor = 2, .order = "ep-cp-tp-dp-pp"},
  };
  return kAll;
}

class Dispatchers : public ::testing::TestWithParam<std::string> {};

TEST_P(Dispatchers, BringRowsToTheirExpertsAndBack) {
  for (const Layout& layout : layouts()) {
    EXPECT_EQ(dispatcher_check(world(), {.type = GetParam(), .layout = layout}), "")
        << "world " << layout.world << ", ep " << layout.expert << ", etp " << layout.expert_tensor;
  }
}

TEST_P(Dispatchers, WaitForEverythingThatTheyRead) {
  for (u64 seed = 1; seed <= 4; ++seed) {
    EXPECT_EQ(dispatcher_check(world(),
                               {.type = GetParam(),
                                .layout = {.world = 4, .expert = 2, .expert_tensor = 2},
                                .deferred_seed = seed}),
              "");
  }
}

TEST_P(Dispatchers, TakeAnyNumberOfChoices) {
  for (const i64 top_k : {1, 3}) {
    EXPECT_EQ(dispatcher_check(world(),
                               {.type = GetParam(),
                                .layout = {.world = 2, .expert = 2},
                                .experts = 4,
                                .top_k = top_k}),
              "");
  }
}

// Rows are split among the tensor ranks before the router and joined after the experts.
TEST_P(Dispatchers, MakeALayerThatIsTheSameOnTensorRanks) {
  const LayerCase layer{.type = "moe",
                        .values = {{"model.hidden", 16},
                                   {"layer.experts", 4},
                                   {"layer.ffn", 8},
                                   {"layer.dispatcher.type", GetParam()}}};
  EXPECT_EQ(layer_check(world(), layer), "");
}

INSTANTIATE_TEST_SUITE_P(Shipped,
                         Dispatchers,
                         ::testing::Values("allgather", "alltoall"),
                         [](const auto& info) { return info.param; });

TEST(DispatcherCheck, FindsMistakes) {
  LocalWorld mutants({std::filesystem::path(TESSERA_BUILD_DIR) / "plugins"});
  mutants.add(&register_moe_mutants);
  const auto check = [&](const std::string& mistake) {
    return dispatcher_check(mutants,
                            {.type = "mutant_dispatcher",
                             .layout = {.world = 2, .expert = 2},
                             .values = {{"dispatcher.mistake", mistake}}});
  };
  using ::testing::HasSubstr;
  EXPECT_EQ(check("none"), "");
  EXPECT_THAT(check("sources_swapped"), HasSubstr("rows at the experts: value 0 is"));
  EXPECT_THAT(check("last_row_dropped"), HasSubstr("rows at the experts: value"));
  EXPECT_THAT(check("weight_of_the_next_row"), HasSubstr("weights at the experts: value 0 is"));
}

}  // namespace dispatcher_test
}  // namespace tessera::testing
