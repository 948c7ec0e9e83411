// A graph policy that captures the phases of some scopes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tessera/graph.hpp>

#include <algorithm>

#include "sdk_support.hpp"

namespace tessera {
namespace partial_graph_test {

/// Runs of neighbouring phases with a chosen scope and fixed shapes become one graph each; a graph
/// does not reach from one layer into the next.
class Partial final : public GraphPolicy {
 public:
  struct Config {
    std::vector<std::string> scope = {"attn", "mlp"};
    static void describe(Schema<Config>& s) {
      s.field("scope", &Config::scope, "scopes of the phases that are captured")
          .megatron("--cuda-graph-scope");
    }
  };
  Partial(const Config& config, GraphArguments&) : config_(config) {}

  std::vector<CapturedRange> do_choose(std::span<const PhaseInfo> phases,
                                       const Plan&) const override {
    std::vector<CapturedRange> ranges;
    const PhaseInfo* before = nullptr;
    for (const PhaseInfo& phase : phases) {
      const bool taken = phase.shapes == Shapes::fixed &&
                         std::ranges::find(config_.scope, phase.scope) != config_.scope.end();
      if (taken && before != nullptr && before->chunk == phase.chunk &&
          before->layer == phase.layer) {
        ranges.back().last_phase = phase.phase;
      } else if (taken) {
        ranges.push_back({phase.chunk, phase.phase, phase.phase});
      }
      before = taken ? &phase : nullptr;
    }
    return ranges;
  }

 private:
  Config config_;
};

std::vector<PhaseInfo> moe_layers(int layers) {
  std::vector<PhaseInfo> phases;
  const auto add = [&](int layer, const char* scope, Shapes shapes) {
    PhaseInfo info;
    info.layer = layer;
    info.phase = static_cast<int>(phases.size());
    info.scope = scope;
    info.shapes = shapes;
    phases.push_back(info);
  };
  for (int layer = 0; layer < layers; ++layer) {
    add(layer, "attn", Shapes::fixed);
    add(layer, "moe_router", Shapes::fixed);
    add(layer, "moe_preprocess", Shapes::fixed);
    add(layer, "moe_dispatch", Shapes::dynamic);
    add(layer, "moe_experts", Shapes::dynamic);
    add(layer, "moe_combine", Shapes::dynamic);
  }
  return phases;
}

std::vector<CapturedRange> choose(const std::vector<std::string>& scope, int layers) {
  GraphArguments arguments;
  return Partial({scope}, arguments).choose(moe_layers(layers), Plan{});
}

TEST(PartialGraphs, JoinNeighboursOfALayer) {
  const auto ranges = choose({"attn", "moe_router", "moe_preprocess"}, 2);
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].first_phase, 0);
  EXPECT_EQ(ranges[0].last_phase, 2);
  EXPECT_EQ(ranges[1].first_phase, 6);
  EXPECT_EQ(ranges[1].last_phase, 8);
}

TEST(PartialGraphs, LeaveGapsAndDynamicPhasesOut) {
  const auto ranges = choose({"attn", "moe_preprocess", "moe_experts"}, 1);
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].last_phase, 0);
  EXPECT_EQ(ranges[1].first_phase, 2);
  EXPECT_TRUE(choose({}, 2).empty());
}

TEST(PartialGraphs, AreConfiguredByAnArray) {
  TestRegistrar registrar;
  registrar.add<GraphPolicy, Partial>("partial", "captures chosen phases");
  const FieldSpec& scope = registrar.find("graph", "partial").fields[0];
  EXPECT_EQ(scope.type, FieldType::array);
  EXPECT_EQ(scope.element, FieldType::string);
  EXPECT_EQ(scope.initial->text(), "[\"attn\", \"mlp\"]");
  GraphArguments arguments;
  const auto made = registrar.find("graph", "partial")
                        .make(TestTable({{"scope", Value::Array{"moe_router"}}}), {}, &arguments);
  const auto ranges = static_cast<GraphPolicy*>(made.get())->choose(moe_layers(1), Plan{});
  ASSERT_EQ(ranges.size(), 1U);
  EXPECT_EQ(ranges[0].first_phase, 1);
}

}  // namespace partial_graph_test
}  // namespace tessera
