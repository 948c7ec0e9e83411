// What does not change a bit of a mixture of experts: shared experts that run while rows are on
// their way, and empty places. That the first really run meanwhile, and what the second fix.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "kernel/dry/dry_rank.hpp"
#include "kernel/train/execution/train_step.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "kernel/train/setup/placed_model.hpp"
#include "layouts_support.hpp"

namespace tessera::testing {
namespace moe_bits_test {

const Sets kModel = {"model.block.mlp.type=\"moe\"",
                     "model.block.mlp.experts=4",
                     "model.block.mlp.ffn=8",
                     "model.block.mlp.init_std=0.5"};
const Sets kShared = with(kModel, {"model.block.mlp.shared_ffn=12"});
const Sets kChosen = {"model.block.mlp.router.type=\"expert_choice\""};
const std::string kOverlap = "model.block.mlp.shared_overlap=true";

struct Row {
  std::string name;
  Sets sets;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const Sets kEven4 = {"parallel.pipeline=2",
                     "model.layers=6",
                     "batch.micro=1",
                     "placement.count_embedding=true",
                     "placement.count_head=true"};
std::vector<Row> rows() {
  return {{"dp4_ep2", {"parallel.data=4", "parallel.expert=2"}},
          {"etp2_ep2", {"parallel.expert_tensor=2", "parallel.expert=2"}},
          {"tp2_sp_ep2_etp1",
           {"parallel.tensor=2",
            "parallel.sequence_parallel=true",
            "parallel.expert=2",
            "parallel.expert_tensor=1"}},
          {"recomputed_ep2", {"parallel.expert=2", "recompute.mode=\"full\""}},
          {"allgather_ep2", {"parallel.expert=2", "model.block.mlp.dispatcher.type=\"allgather\""}},
          {"zbv_pp2_ep2", with(kEven4, {"schedule.type=\"zbv\"", "parallel.expert=2"})}};
}

class MoeBits : public ::testing::TestWithParam<Row> {};

void expect_same(const Sets& one, const Sets& other) {
  TrainOptions options;
  options.steps = 3;
  const Training a = train(tiny_config(), one, options), b = train(tiny_config(), other, options);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_EQ(a.gradients, b.gradients);
  EXPECT_EQ(a.parameters, b.parameters);
}

TEST_P(MoeBits, OfSharedExpertsThatOverlap) {
  const Sets sets = with(kShared, GetParam().sets);
  expect_same(sets, with(sets, {kOverlap}));
}

TEST_P(MoeBits, OfEmptyPlaces) {
  const Sets sets = with(with(kModel, {"model.block.mlp.capacity_factor=0.75"}), GetParam().sets);
  expect_same(sets, with(sets, {"model.block.mlp.pad_to_capacity=true"}));
}

// Experts that choose have fixed places where ranks hold whole sequences, else with padding.
TEST(MoeBitsOfExpertsThatChoose, OfEmptyPlaces) {
  for (const Sets& layout :
       {Sets{"parallel.tensor=2",
             "parallel.sequence_parallel=true",
             "parallel.expert=2",
             "parallel.expert_tensor=1"},
        Sets{"parallel.context=2", "parallel.expert=2"},
        Sets{"parallel.tensor=4", "parallel.expert_tensor=2", "parallel.expert=2"}}) {
    const Sets sets = with(with(kModel, kChosen), layout);
    expect_same(sets, with(sets, {"model.block.mlp.pad_to_capacity=true"}));
  }
}

// A rank counts what it routes: one sequence of a microbatch of one, where nothing is cut.
TEST(CapacityOfARank, IsThatOfASequenceWhereItRoutesOne) {
  const auto losses = [](const Sets& more) {
    const Sets sets = with(with(kModel, {"model.block.mlp.capacity_factor=0.75"}), more);
    return train(tiny_config(), sets, {.steps = 3}).losses;
  };
  const std::string rank = "model.block.mlp.capacity_scope=\"rank\"";
  const std::vector<double> sequence = losses({});
  EXPECT_EQ(losses({rank, "batch.micro=1"}), losses({"batch.micro=1"}));
  for (const std::string layout : {"batch.micro=2", "parallel.context=2", "parallel.tensor=4"}) {
    EXPECT_EQ(difference(losses({layout}), sequence, kLossTolerance, "loss"), "") << layout;
    EXPECT_NE(difference(losses({layout, rank}), sequence, kLossTolerance, "loss"), "") << layout;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, MoeBits, ::testing::ValuesIn(rows()), [](const auto& info) {
  return info.param.name;
});

// One step of rank 0 of two that share the experts, which nothing runs.
struct DryStep {
  int products = 0;  // of matrices, while rows or results are under way
  std::vector<Shapes> shapes;
  std::vector<std::string> scopes;
};

DryStep dry_step(const Sets& sets) {
  const Resolved config =
      resolve(Config::parse(tiny_config(), "test", with(with(kModel, {"parallel.expert=2"}), sets)),
              plugins());
  const RunSetup setup = derive_setup(config, plugins(), 2);
  DryStep found;
  std::set<u64> under_way;
  DryEvents events;
  events.launched = [&](const Kernel& kernel, const void*) {
    if (kernel.operation == "matmul" && !under_way.empty()) ++found.products;
  };
  events.collectives.started = [&](u64 id, const GroupSpec& group, const Collective& collective) {
    const bool rows = group.name.starts_with("etp-ep") || group.name.starts_with("ep");
    if (rows && collective.kind == CollectiveKind::exchange) under_way.insert(id);
  };
  events.collectives.waited = [&](u64 id) { under_way.erase(id); };
  const RankSpec spec = rank_spec_of(setup);
  const Rank rank = dry_rank(setup.layout, 0, make_device(spec, {}), std::move(events));
  PlacedModel model(rank, setup);
  TrainStep step(model);
  found.products = 0;
  step.run();
  for (const Phase& phase : model.chunks().front().phases()) {
    if (!phase.scope.starts_with("moe_") && phase.scope != "shared_experts") continue;
    found.scopes.emplace_back(phase.scope);
    found.shapes.push_back(phase.reads.empty() ? phase.shapes : Shapes::dynamic);
  }
  return found;
}

// A layer's two products run forward while rows are under way, and two for each of them backward;
// these do so anyway, because gradients of rows are waited for where they are read.
TEST(SharedExperts, RunWhileRowsAreUnderWay) {
  const Sets shared = {"model.block.mlp.shared_ffn=12"};
  const int layers = 2, microbatches = 2;
  EXPECT_EQ(dry_step(with(shared, {kOverlap})).products, layers * microbatches * 6);
  EXPECT_EQ(dry_step(shared).products, layers * microbatches * 4);
  EXPECT_EQ(dry_step({}).products, 0);
}

TEST(SharedExperts, AreAPhaseWhereTheyDoNotOverlap) {
  const Sets shared = {"model.block.mlp.shared_ffn=12", "model.layers=1"};
  using ::testing::ElementsAre;
  EXPECT_THAT(dry_step(shared).scopes,
              ElementsAre("moe_router",
                          "moe_preprocess",
                          "shared_experts",
                          "moe_dispatch",
                          "moe_experts",
                          "moe_combine",
                          "moe_unpermute"));
  EXPECT_THAT(dry_step(with(shared, {kOverlap})).scopes,
              ::testing::Not(::testing::Contains("shared_experts")));
}

TEST(EmptyPlaces, FixAllShapes) {
  for (const std::string dispatcher : {"alltoall", "allgather"}) {
    const Sets sets = {"model.layers=1",
                       "model.block.mlp.capacity_factor=1.0",
                       fmt::format("model.block.mlp.dispatcher.type=\"{}\"", dispatcher)};
    EXPECT_THAT(dry_step(sets).shapes, ::testing::Contains(Shapes::dynamic).Times(3));
    EXPECT_THAT(dry_step(with(sets, {"model.block.mlp.pad_to_capacity=true"})).shapes,
                ::testing::Each(Shapes::fixed));
  }
}

TEST(ExpertsThatChoose, FixAllShapesOfRanksWithWholeSequences) {
  for (const std::string dispatcher : {"alltoall", "allgather"}) {
    const Sets sets =
        with(kChosen,
             {"model.layers=1", fmt::format("model.block.mlp.dispatcher.type=\"{}\"", dispatcher)});
    EXPECT_THAT(dry_step(sets).shapes, ::testing::Each(Shapes::fixed));
    const Sets cut = with(sets, {"parallel.context=2"});
    EXPECT_THAT(dry_step(cut).shapes, ::testing::Contains(Shapes::dynamic).Times(3));
    EXPECT_THAT(dry_step(with(cut, {"model.block.mlp.pad_to_capacity=true"})).shapes,
                ::testing::Each(Shapes::fixed));
  }
}

}  // namespace moe_bits_test
}  // namespace tessera::testing
