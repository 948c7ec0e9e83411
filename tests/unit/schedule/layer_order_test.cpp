// Orders of chunks, expanded to their layers: the published example, cases worked by hand, and the
// order in which lowered plans run.
#include "kernel/schedule/layer_order.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "kernel/schedule/lower.hpp"
#include "kernel/schedule/verify.hpp"
#include "schedule_support.hpp"
#include "tessera/error.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera::testing {
namespace layer_order_test {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::ThrowsMessage;

using enum Action::Kind;

// Orders of rank 0, whose chunks have the other ranks' between them.
Orders orders(std::vector<Action> order, std::vector<bool> pairs, int chunks, int ranks = 1) {
  Orders out;
  out.shape.ranks = ranks;
  out.shape.chunks = chunks;
  out.by_rank = {std::move(order)};
  out.pairs = {std::move(pairs)};
  out.stages.emplace_back();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    out.stages[0].push_back(chunk * ranks);
    for (int rank = 0; rank < ranks; ++rank) out.owners.push_back({rank, chunk});
  }
  return out;
}

std::vector<double> numbers(const Orders& of, const std::vector<int>& layers) {
  std::vector<double> all;
  for (const LayerAction& action : layer_order(of, 0, layers)) {
    all.push_back(layer_number(action, layers));
  }
  return all;
}

// [1, 2, -2, 1, -1, -1] with layers [1, 2]. Whether a pair is listed as B, F or as F, B, as our
// schedules do after one more warm-up forward: the layers run in the same order.
TEST(LayerOrder, IsThePublishedOne) {
  const std::vector<bool> third = {false, false, true, false, false, false};
  const Action f{F, 1, 0}, b{B, 0, 1};
  for (const auto& [first, second] : {std::pair(b, f), std::pair(f, b)}) {
    const Orders of = orders({{F, 0, 0}, {F, 0, 1}, first, second, {B, 0, 0}, {B, 1, 0}}, third, 2);
    EXPECT_THAT(numbers(of, {1, 2}),
                ElementsAre(1, 2, 3, 1, -3, -3.5, -2, -2.5, -1, -1.5, -1, -1.5));
  }
}

TEST(LayerOrder, OfOneLayer) {
  const std::vector<Action> order = {{F, 0}, {F, 1}, {B, 0}, {F, 2}, {B, 1}, {B, 2}};
  const std::vector<bool> pairs = {false, true, false, true, false, false};
  EXPECT_THAT(numbers(orders(order, pairs, 1), {1}),
              ElementsAre(1, 1, -1, -1.5, 1, -1, -1.5, -1, -1.5));
}

// What one pass has more follows alone; what other ranks wait for comes before the last weights.
TEST(LayerOrder, OfUnequalChunks) {
  const std::vector<bool> pairs = {true, false, true, false};
  const std::vector<Action> order = {{F, 1, 0}, {B, 0, 1}, {F, 1, 1}, {B, 0, 0}};
  EXPECT_THAT(numbers(orders(order, pairs, 2), {3, 1}),
              ElementsAre(1, -4, -4.5, 2, 3, 4, -3, -3.5, -2, -2.5, -1, -1.5));
  EXPECT_THAT(numbers(orders(order, pairs, 2, 2), {3, 1}),
              ElementsAre(1, -4, 2, 3, -4.5, 4, -3, -3.5, -2, -2.5, -1, -1.5));
  EXPECT_THAT([&] { numbers(orders(order, pairs, 2), {3}); },
              ThrowsMessage<Error>("layers of 1 chunks are given for the 2 chunks of a rank"));
}

// Interleaved 1F1B of one rank and two microbatches: 1 2 1 -2 2 -1 -2 -1.
TEST(LayerOrder, OfTwoChunksWithThreeLayers) {
  const std::vector<Action> order = {
      {F, 0, 0}, {F, 0, 1}, {F, 1, 0}, {B, 0, 1}, {F, 1, 1}, {B, 0, 0}, {B, 1, 1}, {B, 1, 0}};
  const std::vector<bool> pairs = {false, false, true, false, true, false, false, false};
  EXPECT_THAT(numbers(orders(order, pairs, 2), {3, 3}),
              ElementsAreArray({1.0,  2.0,  3.0,  4.0,  5.0,  6.0,                    // warm-up
                                1.0,  -6.0, -6.5, 2.0,  -5.0, -5.5, 3.0, -4.0, -4.5,  // a pair
                                4.0,  -3.0, -3.5, 5.0,  -2.0, -2.5, 6.0, -1.0, -1.5,  // a pair
                                -6.0, -6.5, -5.0, -5.5, -4.0, -4.5,                   // the rest
                                -3.0, -3.5, -2.0, -2.5, -1.0, -1.5}));
}

TEST(LayerOrder, WithoutPairsIsThatOfTheChunks) {
  Orders plain = orders({{F, 0}, {B, 0}, {F, 1}, {B, 1}}, {}, 1);
  plain.pairs.clear();
  EXPECT_THAT(numbers(plain, {2}), ElementsAre(1, 2, -2, -2.5, -1, -1.5, 1, 2, -2, -2.5, -1, -1.5));
  const std::vector<bool> none(4);
  EXPECT_THAT(numbers(orders({{F, 0, 0}, {F, 0, 1}, {Bi, 0, 1}, {Bw, 0, 1}}, none, 2), {1, 2}),
              ElementsAre(1, 2, 3, -3, -2, -3.5, -2.5));
}

// --- Of plans

// A letter a layer: e(mbedding) and h(ead) have a phase each, d(ense) two, m (experts) several.
void add_layer(std::vector<PhaseInfo>& phases, int chunk, int& layer, int& phase, char kind) {
  std::vector<std::string_view> scopes;
  if (kind == 'e') scopes = {"embedding"};
  if (kind == 'h') scopes = {"head"};
  if (kind == 'd') scopes = {"attn", "mlp"};
  if (kind == 'm') scopes = {"attn", "router", "dispatch", "experts", "combine", "unpermute"};
  for (const std::string_view scope : scopes) {
    PhaseInfo& info = phases.emplace_back();
    info.chunk = chunk;
    info.layer = layer;
    info.phase = phase++;
    info.scope = scope;
    info.starts_exchange = scope == "dispatch" || scope == "combine";
  }
  ++layer;
}

// `layers` of each chunk; the first stage has an embedding, too, and the last one a head.
std::vector<PhaseInfo> phases_of(const Orders& orders,
                                 int rank,
                                 const std::vector<std::string>& layers) {
  std::vector<PhaseInfo> phases;
  int layer = 0;
  for (int chunk = 0; chunk < orders.shape.chunks; ++chunk) {
    const int stage = orders.stage(rank, chunk);
    std::string all = layers[static_cast<std::size_t>(chunk)];
    if (stage == 0) all = "e" + all;
    if (stage == orders.last_stage()) all += "h";
    int phase = 0;
    for (const char kind : all) add_layer(phases, chunk, layer, phase, kind);
  }
  return phases;
}

// Forward a layer runs where its first phase does, backward where that phase's half does.
std::vector<LayerAction> layers_run(const Plan& plan) {
  std::vector<int> layer_of(plan.phases.size(), -1);  // by its first phase
  for (int chunk = 0; chunk < plan.shape.chunks; ++chunk) {
    std::vector<int> all;
    for (int i = 0; i < static_cast<int>(plan.phases.size()); ++i) {
      if (plan.phases[static_cast<std::size_t>(i)].chunk == chunk) all.push_back(i);
    }
    int layer = 0;
    auto first = static_cast<std::size_t>(all.front());
    for (const std::size_t size : layer_sizes(plan.phases, all)) {
      layer_of[first] = layer++;
      first += size;
    }
  }
  std::vector<LayerAction> run;
  for (const PlanAction& action : plan.actions) {
    if (action.phase < 0 || action.kind == PlanAction::Recompute) continue;
    const int layer = layer_of[static_cast<std::size_t>(action.phase)];
    if (layer < 0) continue;
    const auto add = [&](Action::Kind kind) {
      run.push_back({kind, action.microbatch, action.chunk, layer});
    };
    if (action.kind == PlanAction::F) add(F);
    if (action.kind == PlanAction::B || action.kind == PlanAction::Bi) add(Bi);
    if (action.kind == PlanAction::B || action.kind == PlanAction::Bw) add(Bw);
  }
  return run;
}

std::string text(const std::vector<LayerAction>& order, const std::vector<int>& layers) {
  std::string all;
  for (const LayerAction& action : order) {
    all += fmt::format("{}({}) ", layer_number(action, layers), action.microbatch);
  }
  return all;
}

struct Case {
  std::string type, keys;
  std::vector<int> ranks;
};

void expect_plans_in_layer_order(const Case& of, const std::vector<std::string>& layers) {
  for (const int p : of.ranks) {
    SCOPED_TRACE(fmt::format("{} {} of {} ranks", of.type, of.keys, p));
    ScheduleArguments arguments{p};
    const auto schedule = make_plugin<PipelineSchedule>(of.type, of.keys, arguments);
    const PipelineShape shape = shape_of(*schedule, p, 2 * p + 2, true);
    const Pipeline pipeline(*schedule, shape);
    std::vector<int> counts;
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      counts.push_back(static_cast<int>(layers[static_cast<std::size_t>(chunk)].size()));
    }
    std::vector<Plan> plans;
    for (int rank = 0; rank < p; ++rank) {
      plans.push_back(lower(pipeline, rank, phases_of(pipeline.orders, rank, layers), {}));
      EXPECT_EQ(text(layers_run(plans.back()), counts),
                text(layer_order(pipeline.orders, static_cast<std::size_t>(rank), counts), counts));
    }
    verify(plans);
  }
}

TEST(LayerOrder, IsThatOfLoweredPlans) {
  const std::string on = "overlap = true";
  const std::vector<Case> all = {{"sequential", on, {1}},
                                 {"1f1b", on, {1, 2, 4}},
                                 {"interleaved_1f1b", on, {1, 2}},
                                 {"dualpipe_v", on, {1, 2, 4}},
                                 {"1f1b", "", {1, 2}},
                                 {"interleaved_1f1b", "", {2}},
                                 {"zb_h1", "", {2}},
                                 {"zbv", "", {2}}};
  const std::vector<std::vector<std::string>> models = {{"d", "d"},
                                                        {"m", "m"},
                                                        {"dd", "dd"},
                                                        {"mmm", "mmm"},
                                                        {"dm", "md"},
                                                        {"ddm", "mm"},
                                                        {"m", "mmm"},
                                                        {"dmdm", "d"}};
  for (const Case& of : all) {
    for (const std::vector<std::string>& layers : models) {
      SCOPED_TRACE(fmt::format("{}", fmt::join(layers, " | ")));
      expect_plans_in_layer_order(of, layers);
    }
  }
}

TEST(LayerSizes, CountSinglePhasesAtTheEndsWithTheirNeighbours) {
  const auto sizes = [](const std::string& letters) {
    std::vector<PhaseInfo> phases;
    int layer = 0, phase = 0;
    for (const char kind : letters) add_layer(phases, 0, layer, phase, kind);
    std::vector<int> all(phases.size());
    std::iota(all.begin(), all.end(), 0);
    return layer_sizes(phases, all);
  };
  EXPECT_THAT(sizes("dm"), ElementsAre(2, 6));
  EXPECT_THAT(sizes("edmh"), ElementsAre(3, 7));
  EXPECT_THAT(sizes("e"), ElementsAre(1));
  EXPECT_THAT(sizes("eh"), ElementsAre(2));
  EXPECT_THAT(sizes("eeee"), ElementsAre(2, 2));
}

}  // namespace layer_order_test
}  // namespace tessera::testing
