// The kit's layer_check: the layers that ship pass, and layers with a mistake of tensor or sequence
// parallelism do not, in the layout that the mistake needs.
#include <gmock/gmock.h>

#include "common/error_of.hpp"
#include "mutants_support.hpp"
#include "tessera/build.hpp"
#include "tessera/ops.hpp"
#include "tessera/testing/layer_check.hpp"
#include "wrong_linears_support.hpp"

namespace tessera::testing {
namespace layer_check_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kRows = "sequence parallel";

// x + dropout(scale(x)), its random numbers of own rows, or of the microbatch's first ones.
class RowDropout final : public Layer {
 public:
  struct Config {
    std::string mistake = "none";
    static void describe(Schema<Config>& s) {
      s.field("mistake", &Config::mistake, "what to do wrong").one_of({"none", "first_rows"});
    }
  };
  RowDropout(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        own_(config.mistake == "none"),
        hidden_(build.slot("hidden")),
        row_ids_(build.slot("row_ids")),
        key_(build.random_site("dropout")) {}
  std::vector<Phase> do_phases() override {
    return {{.scope = "mlp", .run = [this](Context& cx, Bundle& bundle) {
               const Tensor x = bundle[hidden_];
               const Tensor rows = own_ ? region_.own_rows(bundle[row_ids_])
                                        : bundle[row_ids_].slice(0, 0, x.dim(0));
               bundle[hidden_] = ops::dropout(cx, ops::scale(cx, x, 2), x, rows, 0.5, key_);
             }}};
  }

 private:
  TensorRegion region_;
  bool own_;
  Slot hidden_, row_ids_;
  u64 key_;
};

// Forgets to leave what it computed.
class LeavesNothing final : public Layer {
 public:
  using Config = NoConfig;
  LeavesNothing(const Config&, BuildContext& build) : hidden_(build.slot("hidden")) {}
  std::vector<Phase> do_phases() override {
    return {
        {.scope = "mlp", .run = [this](Context&, Bundle& bundle) { bundle[hidden_] = Tensor(); }}};
  }

 private:
  Slot hidden_;
};

const LocalWorld& world() {
  static const std::unique_ptr<LocalWorld> kWorld = [] {
    auto made = std::make_unique<LocalWorld>(
        std::vector<std::filesystem::path>{TESSERA_BUILD_DIR "/plugins"});
    made->add(&register_mutants);
    made->add(+[](Registrar& r) {
      r.add<Layer, RowDropout>("row_dropout", "dropout by rows");
      r.add<Layer, LeavesNothing>("leaves_nothing", "nothing");
      r.add<Module, WithoutEnter>("without_enter", "a column linear");
      r.add<Module, WholeBias>("whole_bias", "a row linear");
    });
    return made;
  }();
  return *kWorld;
}

std::string check(const std::string& type, const Given& more = {}, i64 tensor = 2) {
  LayerCase layer;
  layer.type = type;
  layer.tensor = tensor;
  layer.values = {{"model.hidden", 16},
                  {"model.heads", 4},
                  {"model.layers", 2},
                  {"model.positions", 8},
                  {"model.dropout", 0.25}};
  layer.values.insert(layer.values.end(), more.begin(), more.end());
  const bool vocabulary = type == "embedding" || type == "lm_head";
  if (vocabulary) layer.given = {{"vocab", 32}, {"vocab_multiple", 5}};
  return layer_check(world(), layer);
}

TEST(LayerCheck, LayersThatShipPass) {
  for (const i64 tensor : {2, 4}) {
    for (const char* type :
         {"embedding", "transformer_block", "self_attention", "mlp", "lm_head", "row_dropout"}) {
      EXPECT_EQ(check(type, {}, tensor), "") << type << " on " << tensor;
    }
  }
}

TEST(LayerCheck, ActivationsWithAGatePass) {
  for (const char* activation : {"swiglu", "geglu"}) {
    const Given gated = {{"layer.ffn", 8}, {"layer.activation", activation}};
    EXPECT_EQ(check("gated_mlp", gated, 2), "") << activation;
    Given experts = {{"layer.experts", 4}, {"layer.shared_ffn", 8}};
    experts.insert(experts.end(), gated.begin(), gated.end());
    EXPECT_EQ(check("moe", experts, 2), "") << activation;
  }
}

// Ranks of the tensor group add parts of these losses.
TEST(LayerCheck, SumsWhatRanksAddToALoss) {
  const Given experts = {
      {"layer.experts", 4}, {"layer.ffn", 8}, {"layer.sequence_loss", 0.5}, {"layer.z_loss", 0.5}};
  for (const i64 tensor : {2, 4}) EXPECT_EQ(check("moe", experts, tensor), "") << tensor;
}

TEST(LayerCheck, WantsAResultOrALoss) {
  EXPECT_THAT(error_of([&] { check("leaves_nothing"); }),
              HasSubstr("the layer leaves neither \"hidden\" nor a loss"));
}

struct Mistake {
  std::string name, type;
  Given values;
  bool without, with;  ///< is it found without, with sequence parallelism?
  std::string what;    ///< of the text
};

std::vector<Mistake> mistakes() {
  const auto module = [](const std::string& slot, const std::string& type, const char* mistake) {
    return Given{{"layer." + slot + ".type", "mutant_" + type},
                 {"layer." + slot + ".mistake", mistake}};
  };
  return {
      {"partial_gradient_forgotten",
       "transformer_block",
       module("norm", "norm", "gradient_not_summed"),
       false,
       true,
       "the gradient of \"layer.attention_norm.weight\": element"},
      {"row_bias_added_by_every_rank",
       "mlp",
       module("down", "row_linear", "bias_before_reduce"),
       true,
       true,
       "the result: element"},
      {"input_gradient_not_summed",
       "mlp",
       module("up", "column_linear", "no_backward_reduce"),
       true,
       true,
       ""},
      {"dropout_of_the_first_rows",
       "row_dropout",
       {{"layer.mistake", "first_rows"}},
       false,
       true,
       "rank 1: the result: element"},
      {"region_not_entered", "mlp", {{"layer.up.type", "without_enter"}}, true, true, ""},
      {"row_bias_without_its_placement",
       "mlp",
       {{"layer.down.type", "whole_bias"}},
       false,
       true,
       "an error: layer.down: the bias \"layer.down.bias\" is added to own rows; declare it with "
       ".placement = build.tensor_region().per_row()"},
      {"same_mask_for_all_heads",
       "mutant_attention",
       {{"layer.mistake", "same_mask_on_every_rank"}},
       true,
       true,
       "the result: element"},
      {"head_not_entered", "mutant_head", {{"layer.mistake", "no_copy"}}, true, true, ""},
  };
}

class LayerCheckFinds : public ::testing::TestWithParam<Mistake> {};

TEST_P(LayerCheckFinds, TheMistake) {
  const Mistake& mistake = GetParam();
  const std::string found = check(mistake.type, mistake.values);
  EXPECT_THAT(found, HasSubstr(mistake.what));
  EXPECT_EQ(found.find("tensor = 2, rank") != std::string::npos, mistake.without) << found;
  EXPECT_EQ(found.find("tensor = 2, sequence parallel") != std::string::npos, mistake.with)
      << found;
}

INSTANTIATE_TEST_SUITE_P(All,
                         LayerCheckFinds,
                         ::testing::ValuesIn(mistakes()),
                         [](const auto& info) { return info.param.name; });

}  // namespace layer_check_test
}  // namespace tessera::testing
