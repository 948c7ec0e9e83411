// Models whose blocks are of several kinds: [model.blocks.NAME] over [model.block], in the order of
// model.pattern.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "common/error_of.hpp"
#include "kernel/planner/predict.hpp"
#include "kernel/train/run/dry_run.hpp"
#include "layouts_support.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace block_pattern_test {

// With further lines of [model], and tables.
std::string config_with(const std::string& keys, const std::string& tables) {
  std::string text = tiny_config();
  const std::string last = "vocab_multiple = 8\n";
  text.insert(text.find(last) + last.size(), keys);
  return text + tables;
}

struct Mistake {
  std::string name, pattern, tables, key, what;
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

const std::string kKinds = "[model.blocks.dense]\n[model.blocks.sparse.mlp]\ntype = \"mlp\"\n";

std::vector<Mistake> mistakes() {
  return {
      {"not_closed",
       "dense (sparse",
       kKinds,
       "pattern = ",
       "model.pattern: \"(\" is not closed at character 14"},
      {"closed_twice",
       "dense) sparse",
       kKinds,
       "pattern = ",
       "model.pattern: \")\" without \"(\" at character 6"},
      {"unknown_kind",
       "dense spares",
       kKinds,
       "pattern = ",
       "model.pattern: there is no [model.blocks.spares]; did you mean \"sparse\"? at character 7"},
      {"another_sign",
       "dense | sparse",
       kKinds,
       "pattern = ",
       "model.pattern: unexpected \"|\"; names of [model.blocks], (…) and *n are known at "
       "character 7"},
      {"repeated_no_times",
       "dense sparse*0",
       kKinds,
       "pattern = ",
       "model.pattern: \"*\" needs a positive number at character 15"},
      {"more_blocks_than_layers",
       "dense (dense sparse)*3",
       kKinds,
       "pattern = ",
       "model.pattern: it has 7 blocks; model.layers = 2"},
      {"no_kinds",
       "dense dense",
       "",
       "pattern = ",
       "model.pattern: there is no [model.blocks.dense]; there are none at character 1"},
      {"kind_that_is_not_named",
       "dense*2",
       kKinds,
       "[model.blocks.sparse",
       "model.blocks.sparse: no block of model.pattern is of this kind"},
      {"kinds_without_a_pattern",
       "",
       "[model.blocks.dense]\n",
       "[model.blocks.dense",
       "model.blocks.dense: model.pattern says which blocks are of this kind, and is empty"},
      {"features_that_do_not_divide",
       "dense sparse",
       kKinds + "ffn = 10\n[parallel]\ntensor = 4\n",
       "ffn = ",
       "[model.blocks.sparse.mlp] ffn: 10 inner features do not divide among parallel.tensor = 4 "
       "ranks"},
      {"inherited_features_that_do_not_divide",
       "dense sparse",
       kKinds + "[model.block.mlp]\nffn = 10\n[parallel]\ntensor = 4\n",
       "ffn = ",
       ", from model.block.mlp.ffn: [model.blocks.dense.mlp] ffn: 10 inner features do not divide "
       "among parallel.tensor = 4 ranks"},
  };
}

class BadPattern : public ::testing::TestWithParam<Mistake> {};

TEST_P(BadPattern, IsFoundAtItsPlace) {
  const Mistake& mistake = GetParam();
  const std::string text =
      config_with(fmt::format("pattern = \"{}\"\n", mistake.pattern), mistake.tables);
  const auto line =
      std::count(
          text.begin(), text.begin() + static_cast<i64>(text.find("\n" + mistake.key)), '\n') +
      2;
  const Resolved config = resolve(Config::parse(text, "run.toml"), plugins());
  EXPECT_THAT(
      error_of<ConfigError>([&] { checked_setup(config, plugins(), world_size(config.run), 1); }),
      ::testing::AllOf(::testing::StartsWith(fmt::format("run.toml:{}:", line)),
                       ::testing::HasSubstr(mistake.what)));
}

INSTANTIATE_TEST_SUITE_P(All, BadPattern, ::testing::ValuesIn(mistakes()), [](const auto& info) {
  return info.param.name;
});

// Six blocks, four of them with experts.
const Sets kMixed = {"model.layers=6",
                     "batch.micro=1",
                     "model.pattern=\"dense (dense sparse)*2 sparse\"",
                     "model.block.mlp.type=\"moe\"",
                     "model.block.mlp.experts=8",
                     "model.block.mlp.ffn=8",
                     "model.blocks.sparse.mlp.top_k=2",
                     "model.blocks.dense.mlp.type=\"mlp\"",
                     "model.blocks.dense.mlp.ffn=24"};

Prediction predicted(const Sets& sets) {
  const Resolved config =
      resolve(Config::parse(tiny_config(), "test", with(kMixed, sets)), plugins());
  PlanArguments arguments;
  arguments.config = &config;
  arguments.plugins = &plugins();
  arguments.world = world_size(config.run);
  return predict(arguments);
}

TEST(BlockPattern, IsWhatThePlannerCounts) {
  const Prediction mixed = predicted({});
  const i64 hidden = 16, one = 3 * hidden * 8, sparse = 3;
  EXPECT_EQ(mixed.parameters - mixed.active_parameters, sparse * (8 - 2) * one);
  const Prediction dense =
      predicted({"model.blocks.sparse.mlp.type=\"mlp\"", "model.blocks.sparse.mlp.ffn=24"});
  const i64 router = 8 * hidden, mlp = 2 * hidden * 24 + 24 + hidden;
  EXPECT_EQ(mixed.parameters, dense.parameters + sparse * (8 * one + router - mlp));
  // FLOPs of a token: two for each weight that it uses, and as many for each of two gradients.
  const double tokens = 8 * 8;
  EXPECT_DOUBLE_EQ(mixed.model_flops - dense.model_flops,
                   6 * tokens * static_cast<double>(sparse * (2 * one + router - 2 * hidden * 24)));
  const Prediction cut =
      predicted({"parallel.pipeline=2", "parallel.expert=2", "schedule.type=\"1f1b\""});
  EXPECT_EQ(cut.parameters, mixed.parameters);
  EXPECT_EQ(cut.active_parameters, mixed.active_parameters);
  EXPECT_DOUBLE_EQ(cut.model_flops, mixed.model_flops);
  EXPECT_LT(cut.classes[0].parameters, cut.classes[1].parameters) << "most experts come last";
}

const std::vector<TableRow>& layouts() {
  static const std::vector<TableRow> kAll = {
      {"single", {}},
      {"pp2_ep2", {"parallel.pipeline=2", "parallel.expert=2", "schedule.type=\"1f1b\""}},
      {"zbv_pp2",
       {"parallel.pipeline=2",
        "schedule.type=\"zbv\"",
        "placement.layout=\"E t | t*2 | t*2 | t L\""}},
      {"ep4_distributed", {"parallel.expert=4", "optimizer.type=\"distributed\""}}};
  return kAll;
}

// A run that is stopped in one layout goes on in every other.
TEST(BlockPattern, ResumesInOtherLayouts) {
  const std::string config = tiny_config() + "[observers.console]\ntype = \"none\"\n";
  const auto sets = [&](const Sets& layout, const std::string& out) {
    return with(with(kMixed, {"run.steps=6", "lr.warmup_steps=2", "check.replicas_every=0"}),
                with(layout, {fmt::format("run.out=\"{}\"", out)}));
  };
  const TestFolder folder;
  run_trainer({config, sets({}, folder.at("whole"))});
  for (const TableRow& from : layouts()) {
    run_trainer({config, sets(from.sets, folder.at(from.name)), 3});
    for (const TableRow& to : layouts()) {
      SCOPED_TRACE(from.name + " to " + to.name);
      const std::string copy = folder.at(from.name + "_" + to.name);
      std::filesystem::copy(folder.at(from.name), copy, std::filesystem::copy_options::recursive);
      run_trainer({config, sets(to.sets, copy)});
      EXPECT_EQ(difference(metric_of(copy, "loss"),
                           metric_of(folder.at("whole"), "loss"),
                           kLossTolerance,
                           "loss"),
                "");
    }
  }
}

}  // namespace block_pattern_test
}  // namespace tessera::testing
