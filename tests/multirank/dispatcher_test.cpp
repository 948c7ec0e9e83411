// Token dispatchers against the kit's check, and wrong ones that it has to find.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tessera/testing/dispatcher_check.hpp>
#include <tessera/testing/layer_check.hpp>

#include <filesystem>
#include <mutex>

#include "mutants_support.hpp"
#include "tessera/dispatcher.hpp"
#include "tessera/error.hpp"

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

// Every rank has as many places for each expert as it has rows.
TEST_P(Dispatchers, CarryEmptyPlaces) {
  for (const Layout& layout : layouts()) {
    for (const u64 seed : {0, 3}) {
      EXPECT_EQ(dispatcher_check(
                    world(),
                    {.type = GetParam(), .layout = layout, .padded = true, .deferred_seed = seed}),
                "")
          << "world " << layout.world << ", ep " << layout.expert << ", etp "
          << layout.expert_tensor;
    }
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

// A row that is lost on the way to the phase, or within it, is an error before anything is sent.
TEST(AllToAll, RefusesSplitsThatDoNotAddUp) {
  LocalWorldOptions options;
  options.layout = {.world = 2, .expert = 2};
  options.dtype = DType::fp64;
  const auto text = [&](i64 sent, i64 returned) {
    std::string found;
    std::mutex mutex;
    world().run(options, [&](LocalRank& rank) {
      const auto dispatcher =
          rank.build<TokenDispatcher>("dispatcher", "alltoall", {{"experts", 2}, {"top_k", 1}});
      Context cx = rank.context();
      Bundle bundle = rank.bundle();
      const Tensor x = rank.tensor({3, 1}, DType::fp64, {1, 2, 3});
      const Tensor weights = rank.tensor({3, 1}, DType::fp64, {1, 1, 1});
      const Tensor experts = rank.tensor({3, 1}, DType::i32, {0, 1, 1});
      const ExpertRows rows = dispatcher->preprocess(cx, bundle, x, {experts, weights});
      for (const HostSlot slot : dispatcher->reads()) bundle.await(*cx.device, slot);
      try {
        const ExpertRows there = dispatcher->dispatch(
            cx, bundle, {rows.x.slice(0, 0, sent), rows.weights.slice(0, 0, sent)}, [] {});
        bundle.arrive(*cx.stream);
        dispatcher->combine(cx, bundle, there.x.slice(0, 0, returned), [] {});
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        if (rank.index() == 0) found = error.what();
      }
    });
    return found;
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(text(2, 1),
              HasSubstr("dispatcher: 2 rows to send, and the splits of this rank add up to 3 of 3 "
                        "choices"));
  EXPECT_THAT(text(3, 1),
              HasSubstr("dispatcher: 1 results to send back, and the splits of all ranks to this "
                        "one add up to 2"));
}

INSTANTIATE_TEST_SUITE_P(Shipped,
                         Dispatchers,
                         ::testing::Values("allgather", "alltoall"),
                         [](const auto& info) { return info.param; });

TEST(DispatcherCheck, FindsMistakes) {
  LocalWorld mutants({std::filesystem::path(TESSERA_BUILD_DIR) / "plugins"});
  mutants.add(&register_mutants);
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
