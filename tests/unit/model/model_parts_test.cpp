#include "kernel/model/model_parts.hpp"

#include <gmock/gmock.h>

#include "tessera/error.hpp"

namespace tessera {
namespace model_parts_test {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

class Parts : public ::testing::Test {
 protected:
  static Layout two_ranks() {
    Layout layout;
    layout.world = layout.tensor = 2;
    return layout;
  }
  // Where the placement does not matter.
  Parameter& declare(ParameterSpec spec,
                     const std::string& scope,
                     int layer,
                     const std::string& component = {}) {
    spec.placement = Placement::replicated();
    return parts_.declare(spec, scope, layer, component);
  }
  Mesh mesh_{RankGenerator(two_ranks()), 0};
  ModelParts parts_{mesh_};
};

TEST_F(Parts, ParametersAreNamedByTheirPlace) {
  Parameter& p = declare(
      {.name = "weight", .shape = {8, 3}, .split = {{0, Axis::tensor}}}, "layers.0.mlp.up", 1);
  EXPECT_EQ(p.name, "layers.0.mlp.up.weight");
  EXPECT_EQ(p.logical, Shape({8, 3}));
  EXPECT_EQ(p.local, Shape({4, 3}));
  EXPECT_EQ(declare({.name = "weight", .shape = {1}}, "", 0).name, "weight");
  EXPECT_EQ(parts_.logical_elements(), 25);
}

TEST_F(Parts, ReferencesStayValid) {
  Parameter& first = declare({.name = "first", .shape = {1}}, "a", 0);
  for (int i = 0; i < 100; ++i) {
    declare({.name = fmt::format("p{}", i), .shape = {1}}, "a", 0);
  }
  EXPECT_EQ(&first, parts_.parameter_list().front());
}

TEST_F(Parts, SharedDeclarationsAreOneParameter) {
  Parameter& in =
      declare({.name = "weight", .shape = {10, 4}, .share = "embedding.weight"}, "embedding", 0);
  declare({.name = "bias", .shape = {4}}, "layers.0", 1);
  Parameter& out =
      declare({.name = "weight", .shape = {10, 4}, .share = "embedding.weight"}, "head", 2);
  EXPECT_EQ(&in, &out);
  EXPECT_EQ(in.name, "embedding.weight");
  EXPECT_THAT(parts_.parameters()[0].layers, ElementsAre(0, 2));
  EXPECT_EQ(parts_.logical_elements(), 44) << "counted once";
}

// On stages of their own they would begin, be summed and be updated in different ways.
TEST_F(Parts, SharedDeclarationsAreAlike) {
  const ParameterSpec first = {.name = "weight",
                               .shape = {10, 4},
                               .split = {{0, Axis::tensor}},
                               .init = Init::gaussian(0.1),
                               .tags = {"embedding"},
                               .share = "embedding.weight"};
  declare(first, "embedding", 0, "model.embedding (embedding)");
  declare(first, "head", 2);
  const auto expect_refused = [&](const ParameterSpec& other, const std::string& why) {
    EXPECT_THAT(
        [&] { declare(other, "head", 2); },
        ThrowsMessage<ConfigError>("shared parameter \"embedding.weight\" is declared " + why));
  };
  ParameterSpec other = first;
  other.init = Init::gaussian(0.02);
  expect_refused(other,
                 "with initial values normal, deviation 0.1 by model.embedding (embedding) and "
                 "normal, deviation 0.02");
  other.init = Init::ones();
  expect_refused(other,
                 "with initial values normal, deviation 0.1 by model.embedding (embedding) and 1");
  other = first;
  other.tags = {"embedding", "head"};
  expect_refused(other,
                 "with tags [embedding] by model.embedding (embedding) and [embedding, head]");
  other = first;
  other.split[0].pad_to = 8;
  expect_refused(other, "with two splits or placements");
}

TEST_F(Parts, Mistakes) {
  declare({.name = "weight", .shape = {4}}, "a", 0);
  EXPECT_THAT([&] { declare({.name = "weight", .shape = {4}}, "a", 0); },
              ThrowsMessage<Error>("parameter \"a.weight\" is declared twice"));
  declare({.name = "x", .shape = {4}, .share = "s"}, "a", 0);
  EXPECT_THAT([&] { declare({.name = "y", .shape = {5}, .share = "s"}, "b", 1); },
              ThrowsMessage<Error>("shared parameter \"s\" is declared with shape [4] and [5]"));
  EXPECT_THAT(
      [&] {
        declare({.name = "odd", .shape = {7}, .split = {{0, Axis::tensor}}}, "a", 0);
      },
      ThrowsMessage<ConfigError>("parameter \"a.odd\" [7]: dimension 0 of size 7 does not divide "
                                 "among 2 ranks of axis tp"));
  parts_.metric({"accuracy", MetricReduce::sum});
  EXPECT_THAT(
      [&] {
        parts_.metric({"accuracy", MetricReduce::max});
      },
      ThrowsMessage<Error>("metric \"accuracy\" is reduced in two ways"));
  parts_.loss({.name = "z", .auxiliary = true});
  EXPECT_THAT([&] { parts_.loss({.name = "z"}); },
              ThrowsMessage<Error>("the loss \"z\" is declared in two ways"));
  EXPECT_THAT(
      [&] { parts_.metric({.name = "m", .partial = {Axis::expert}}); },
      ThrowsMessage<Error>("metric \"m\" is partial over ep; it can be over tp, cp and dp"));
}

TEST_F(Parts, AComponentDeclaresItsCountsOnce) {
  const auto none = [](std::span<const double>) { return std::vector<LayerMetric>(); };
  EXPECT_EQ(parts_.counts({.size = 4, .metrics = none}, "layers.0.mlp"), 0);
  EXPECT_EQ(parts_.counts({.size = 4, .metrics = none}, "layers.1.mlp"), 1);
  EXPECT_EQ(parts_.counts({.size = 4, .metrics = none}, "layers.0.mlp"), 0) << "of another stage";
  EXPECT_THAT(
      [&] { parts_.counts({.size = 4, .sets = 2, .metrics = none}, "layers.0.mlp"); },
      ThrowsMessage<Error>("layers.0.mlp counts two things: a component declares its counts once"));
  EXPECT_THAT([&] { parts_.counts({.size = 4, .metrics = {}}, "layers.2.mlp"); },
              ThrowsMessage<Error>("layers.2.mlp counts 4 integers in 1 sets: it needs at least "
                                   "one, and metrics made of them"));
}

TEST_F(Parts, BuffersAreWholeAndOfTheMainDtypeWhereTheyAreSaved) {
  const Buffer& bias = parts_.declare(BufferSpec{.name = "bias", .shape = {3}}, "a", DType::fp64);
  EXPECT_EQ(bias.name, "a.bias");
  EXPECT_EQ(bias.dtype, DType::fp64);
  EXPECT_EQ(bias.local, (Shape{3}));
  EXPECT_THAT([&] { parts_.declare(BufferSpec{.name = "bias", .shape = {3}}, "a", DType::fp64); },
              ThrowsMessage<Error>("\"a.bias\" is declared twice"));
  const BufferSpec counts{.name = "counts", .shape = {3}, .dtype = DType::i64};
  EXPECT_THAT([&] { parts_.declare(counts, "a", DType::fp32); },
              ThrowsMessage<Error>("buffer \"a.counts\" is saved, so it has the dtype of main "
                                   "parameters, fp32, and not i64"));
}

TEST_F(Parts, APlacementOnTheTensorAxisIsNeverForgotten) {
  EXPECT_THAT([&] { parts_.declare({.name = "weight", .shape = {4}}, "layers.0.norm", 0); },
              ThrowsMessage<Error>(
                  "parameter \"layers.0.norm.weight\" [4] says nothing of the tensor axis: cut it "
                  "with a Split, or give its placement, .placement = "
                  "build.tensor_region().per_row() where it is applied to each row (a norm, a bias "
                  "of a row-parallel linear)"));
  EXPECT_THAT(
      [&] {
        parts_.declare({.name = "weight",
                        .shape = {4},
                        .split = {{0, Axis::tensor}},
                        .placement = Placement::summed_over({Axis::tensor})},
                       "a",
                       0);
      },
      ThrowsMessage<Error>("parameter \"a.weight\" [4] is cut along tp and summed over it; it can "
                           "be one of the two"));
  const Parameter& summed = parts_.declare(
      {.name = "w", .shape = {4}, .placement = Placement::summed_over({Axis::tensor})}, "a", 0);
  EXPECT_THAT(summed.layout.partial(), ElementsAre(Axis::tensor));
  // Experts are no matter of the dense axes.
  parts_.declare({.name = "experts", .shape = {4, 2}, .split = {{0, Axis::expert}}}, "a", 0);
}

TEST_F(Parts, KnowWhatOneTokenUses) {
  parts_.declare({.name = "w", .shape = {6}, .placement = Placement::replicated()}, "a", 0);
  parts_.declare(
      {.name = "experts", .shape = {8, 2}, .split = {{0, Axis::expert}}, .active = 0.25}, "a", 0);
  EXPECT_EQ(parts_.logical_elements(), 22);
  EXPECT_EQ(parts_.active_elements(), 10);
}

TEST_F(Parts, SlotsAndTermsAreOneAName) {
  EXPECT_EQ(parts_.slot("hidden"), 0);
  EXPECT_EQ(parts_.slot("row_ids"), 1);
  EXPECT_EQ(parts_.slot("hidden"), 0);
  EXPECT_EQ(parts_.host_slot("splits"), 0);
  EXPECT_EQ(parts_.loss({.name = "lm"}), parts_.loss({.name = "lm"}));
  EXPECT_EQ(parts_.metric({"accuracy", MetricReduce::sum}),
            parts_.metric({"accuracy", MetricReduce::sum}));
  EXPECT_EQ(parts_.bundle().tensors().size(), 2U);
}

}  // namespace model_parts_test
}  // namespace tessera
