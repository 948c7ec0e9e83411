// Every key of the shipped models, layers, modules, routers and rotary rules is decided: it is
// structural, or stands here among those that are not.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace structural_keys_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// By name, with the reason why a checkpoint goes on with another value.
const std::map<std::string, std::string> kNotStructural = {
    {"hidden", "shapes"},
    {"positions", "shapes"},
    {"vocab", "shapes"},
    {"ffn", "shapes"},
    {"kv_heads", "shapes"},
    {"head_size", "shapes"},
    {"q_latent", "names and shapes of parameters"},
    {"kv_latent", "shapes"},
    {"fixed_size", "shapes"},
    {"rotary_size", "shapes"},
    {"value_size", "shapes"},
    {"experts", "shapes"},
    {"shared_ffn", "names and shapes of parameters"},
    {"segments", "shapes"},
    {"pairs", "names of parameters"},
    {"classes", "shapes"},
    {"choices", "how a sample is cut"},
    {"predictions", "how many rows of a sample may be masked"},
    {"layers", "names of parameters"},
    {"bias", "names of parameters"},
    {"learned_positions", "names of parameters"},
    {"bias_rate", "names of buffers"},
    {"classes", "shapes"},
    {"choices", "parts of a sample, each of which is computed alone"},
    {"vocab_multiple", "storage"},
    {"init_std", "initial values"},
    {"dropout", "training"},
    {"jitter", "training"},
    {"sequence_loss", "training"},
    {"microbatch_loss", "training"},
    {"global_loss", "training"},
    {"z_loss", "training"},
    {"weight", "training"},
    {"capacity_factor", "how many rows a batch may have of an expert"},
    {"capacity_scope", "the same"},
    {"drop", "the same"},
    {"pad_to_capacity", "the same"},
    {"context", "how ranks exchange rows"},
    {"gather_output", "how ranks exchange rows"},
    {"input_is_parallel", "how ranks exchange rows"},
    {"shared_overlap", "how ranks exchange rows"},
};

std::vector<const ComponentInfo*> components() {
  std::vector<const ComponentInfo*> all;
  for (const char* kind : {"model", "layer", "module", "router", "rotary"}) {
    for (const ComponentInfo* info : build_plugins().of_kind(kind)) all.push_back(info);
  }
  return all;
}

TEST(StructuralKeys, EachKeyOfAModelIsDecided) {
  std::vector<std::string> undecided;
  std::set<std::string> seen;
  for (const ComponentInfo* info : components()) {
    for (const FieldSpec& field : info->fields) {
      const bool value = field.type != FieldType::component && field.type != FieldType::variants;
      if (!value || field.given) continue;
      seen.insert(field.name);
      if (field.structural == kNotStructural.contains(field.name)) {
        undecided.push_back(fmt::format("{}/{}: {}", info->kind, info->type, field.name));
      }
    }
  }
  EXPECT_THAT(undecided, IsEmpty())
      << "say .structural() where the key is declared, or why it is not in this test";
  for (const auto& [name, why] : kNotStructural) {
    EXPECT_TRUE(seen.contains(name)) << name << " is no key any more";
  }
}

TEST(StructuralKeys, ThoseThatChangeWhatParametersCompute) {
  std::vector<std::string> keys;
  for (const ComponentInfo* info : components()) {
    for (const FieldSpec& field : info->fields) {
      if (field.structural && field.type != FieldType::component) {
        keys.push_back(info->type + "." + field.name);
      }
    }
  }
  std::ranges::sort(keys);
  EXPECT_THAT(keys,
              ElementsAre("bert.causal",
                          "bert.heads",
                          "bert.order",
                          "bert.pattern",
                          "default.base",
                          "default.fraction",
                          "default.interleaved",
                          "gated_mlp.activation",
                          "gpt.heads",
                          "gpt.pattern",
                          "gpt.tied_embeddings",
                          "latent_attention.heads",
                          "latent_attention.score_factor",
                          "latent_attention.window",
                          "layernorm.eps",
                          "linear.base",
                          "linear.factor",
                          "linear.fraction",
                          "linear.interleaved",
                          "llama3.base",
                          "llama3.factor",
                          "llama3.fraction",
                          "llama3.high_frequency_factor",
                          "llama3.interleaved",
                          "llama3.low_frequency_factor",
                          "llama3.original_positions",
                          "lm_head.tied",
                          "mlp.activation",
                          "moe.activation",
                          "moe.shared_gate",
                          "moe.top_k",
                          "rmsnorm.eps",
                          "self_attention.causal",
                          "self_attention.heads",
                          "self_attention.window",
                          "top_k.group_top_k",
                          "top_k.groups",
                          "top_k.scale",
                          "top_k.score",
                          "yarn.attention_factor",
                          "yarn.base",
                          "yarn.beta_fast",
                          "yarn.beta_slow",
                          "yarn.factor",
                          "yarn.fraction",
                          "yarn.interleaved",
                          "yarn.mscale",
                          "yarn.mscale_all_dim",
                          "yarn.original_positions"));
}

TEST(StructuralKeys, TheTypeOfASlotWhereItComputesWithParameters) {
  const auto slot = [](std::string_view kind, std::string_view type, std::string_view name) {
    const auto& fields = build_plugins().find(kind, type)->fields;
    return std::ranges::find(fields, name, &FieldSpec::name)->structural;
  };
  EXPECT_TRUE(slot("layer", "transformer_block", "norm"));
  EXPECT_TRUE(slot("layer", "transformer_block", "mlp"));
  EXPECT_TRUE(slot("layer", "moe", "router"));
  EXPECT_FALSE(slot("layer", "moe", "dispatcher")) << "rows come back as they went";
  EXPECT_FALSE(slot("optimizer", "replicated", "rule"));
}

}  // namespace structural_keys_test
}  // namespace tessera
