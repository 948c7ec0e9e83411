// Llama (Touvron et al. 2023) as transformers' LlamaForCausalLM stores it.
#include <fmt/format.h>

#include <algorithm>

#include "rotary.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

namespace {

constexpr const char* kClass = "LlamaForCausalLM";
constexpr const char *kTable = "model.embed_tokens.weight", *kHead = "lm_head.weight";

// The values of keys that config.json leaves out: those of transformers 5.
const Settings& defaults() {
  static const Settings kDefaults = {{"attention_bias", false},
                                     {"attention_dropout", 0.0},
                                     {"hidden_act", "silu"},
                                     {"hidden_size", 4096},
                                     {"initializer_range", 0.02},
                                     {"intermediate_size", 11008},
                                     {"max_position_embeddings", 2048},
                                     {"mlp_bias", false},
                                     {"num_attention_heads", 32},
                                     {"num_hidden_layers", 32},
                                     {"pretraining_tp", 1},
                                     {"rms_norm_eps", 1e-6},
                                     {"tie_word_embeddings", false},
                                     {"vocab_size", 32000}};
  return kDefaults;
}

Value get(Claims& theirs, std::string_view key) {
  return theirs.get(key, defaults().find(key)->second);
}

i64 integer(Claims& theirs, std::string_view key) {
  const Value value = get(theirs, key);
  return theirs.find(key) == nullptr ? std::get<i64>(value.data) : theirs.integer(key);
}

bool flag(Claims& theirs, std::string_view key) {
  return theirs.flag(key, get(theirs, key) == Value(true));
}

struct Sizes {
  explicit Sizes(Claims& theirs)
      : layers(integer(theirs, "num_hidden_layers")),
        hidden(integer(theirs, "hidden_size")),
        ffn(integer(theirs, "intermediate_size")),
        heads(integer(theirs, "num_attention_heads")),
        groups(optional(theirs, "num_key_value_heads", heads)) {
    if (heads < 1 || hidden % heads != 0) {
      fail_config("{} has hidden_size = {} and num_attention_heads = {}, which does not divide it",
                  theirs.file(),
                  hidden,
                  heads);
    }
    head = optional(theirs, "head_dim", hidden / heads);
  }

  i64 layers, hidden, ffn, heads, groups;  // groups: heads of keys and values
  i64 head = 0;                            // size of a head

 private:
  static i64 optional(Claims& theirs, std::string_view key, i64 otherwise) {
    return theirs.find(key) == nullptr ? otherwise : theirs.integer(key);
  }
};

// What a Llama always is here.
const Settings& fixed() {
  static const Settings kFixed = {{"model.type", "gpt"},
                                  {"model.embedding.learned_positions", false},
                                  {"model.block.norm.type", "rmsnorm"},
                                  {"model.head.norm.type", "rmsnorm"},
                                  {"model.block.mlp.type", "gated_mlp"},
                                  {"model.block.mlp.activation", "swiglu"}};
  return kFixed;
}

}  // namespace

class Llama final : public Converter {
 public:
  using Config = NoConfig;
  Llama(const Config&, ConverterArguments&) {}

  std::string_view do_model_type() const override { return "llama"; }
  std::string_view do_optional_prefix() const override { return "model."; }

  Settings do_to_ours(Claims& theirs) const override {
    claim_language_model(theirs, kClass, "LlamaModel");
    theirs.harmless({"unk_token_id", "max_sequence_length", "is_llama_config"});
    theirs.harmless({"transformers.js_config*"});
    if (get(theirs, "hidden_act") != Value("swish")) theirs.only("hidden_act", "silu");
    theirs.only("pretraining_tp", 1);
    const Sizes sizes(theirs);
    const i64 positions = integer(theirs, "max_position_embeddings");
    const Value eps = get(theirs, "rms_norm_eps");
    const bool bias = flag(theirs, "attention_bias"), mlp_bias = flag(theirs, "mlp_bias");
    Settings ours = {{"model.layers", sizes.layers},
                     {"model.hidden", sizes.hidden},
                     {"model.heads", sizes.heads},
                     {"model.positions", positions},
                     {"model.vocab", integer(theirs, "vocab_size")},
                     {"model.tied_embeddings", flag(theirs, "tie_word_embeddings")},
                     {"model.dropout", 0.0},
                     {"model.init_std", get(theirs, "initializer_range")},
                     {"model.block.norm.eps", eps},
                     {"model.head.norm.eps", eps},
                     {"model.block.attention.kv_heads", sizes.groups},
                     {"model.block.attention.head_size", sizes.head},
                     {"model.block.attention.qkv.bias", bias},
                     {"model.block.attention.proj.bias", bias},
                     {"model.block.attention.dropout", get(theirs, "attention_dropout")},
                     {"model.block.mlp.ffn", sizes.ffn},
                     {"model.block.mlp.up.bias", mlp_bias},
                     {"model.block.mlp.down.bias", mlp_bias}};
    for (Settings more :
         {fixed(), rotary_to_ours(theirs, positions), usual_run("llama", positions)}) {
      ours.merge(more);
    }
    return ours;
  }

  Settings do_to_theirs(const Settings& all) const override {
    const ModelKeys ours(all, "Llama");
    ours.only(fixed());
    ours.only({{"model.embedding.type", "embedding"},
               {"model.block.type", "transformer_block"},
               {"model.block.attention.type", "self_attention"},
               {"model.block.attention.causal", true},
               {"model.head.type", "lm_head"}});
    ours.only_one_kind();
    const i64 hidden = ours.integer("model.hidden");
    const i64 heads = ours.integer("model.block.attention.heads");
    Settings theirs = defaults();
    theirs["architectures"] = Value::Array{kClass};
    theirs["num_hidden_layers"] = ours.at("model.layers");
    theirs["hidden_size"] = hidden;
    // As the layer's "auto" is: 8/3 of the hidden size, in 64s.
    const i64 ffn = std::max<i64>(hidden * 8 / 3 / 64, 1) * 64;
    theirs["intermediate_size"] = ours.at("model.block.mlp.ffn", ffn);
    theirs["num_attention_heads"] = heads;
    theirs["num_key_value_heads"] = ours.at("model.block.attention.kv_heads", heads);
    theirs["head_dim"] = ours.at("model.block.attention.head_size", heads > 0 ? hidden / heads : 0);
    theirs["max_position_embeddings"] = ours.at("model.positions");
    theirs["vocab_size"] = ours.at("model.vocab");
    theirs["tie_word_embeddings"] = ours.same({"model.tied_embeddings", "model.head.tied"});
    theirs["attention_bias"] =
        ours.same({"model.block.attention.qkv.bias", "model.block.attention.proj.bias"});
    theirs["mlp_bias"] = ours.same({"model.block.mlp.up.bias", "model.block.mlp.down.bias"});
    theirs["attention_dropout"] = ours.at("model.block.attention.dropout");
    theirs["rms_norm_eps"] = ours.same({"model.block.norm.eps", "model.head.norm.eps"});
    theirs["initializer_range"] = ours.at("model.init_std");
    Settings rotary = rotary_to_theirs(ours);
    theirs.merge(rotary);
    return theirs;
  }

  TokenizerFiles do_tokenizer_files() const override {
    return {.sets = {{"tokenizer.json"}},
            .others = {"tokenizer_config.json",
                       "special_tokens_map.json",
                       "added_tokens.json",
                       // What tokenizer.json was made of.
                       "tokenizer.model",
                       "vocab.json",
                       "merges.txt"}};
  }
  Settings do_tokenizer(const std::string& folder, const Settings& theirs) const override {
    return tokenizer_in(folder, "huggingface", theirs);
  }
  TokenIds do_token_ids(const Tokenizer* tokenizer, const Settings& written) const override {
    return named_tokens(tokenizer, written, std::nullopt);
  }
  // The class that takes tokenizer.json as it is; transformers 4 has one that puts a token first.
  std::string do_tokenizer_config(const Tokenizer&, const Settings&) const override {
    Json config;
    config.add("tokenizer_class", "PreTrainedTokenizerFast");
    return config.text() + "\n";
  }

  // Rotary positions turn halves of a head in both programs, so rows keep their order.
  std::vector<ConvertedTensor> do_tensors(const Settings& theirs) const override {
    Claims claims("config.json", theirs);
    const Sizes sizes(claims);
    const i64 queries = sizes.heads * sizes.head, keys = sizes.groups * sizes.head;
    const bool bias = flag(claims, "attention_bias"), mlp_bias = flag(claims, "mlp_bias");
    std::vector<ConvertedTensor> all = {{"embedding.weight", kTable},
                                        {"head.norm.weight", "model.norm.weight"}};
    if (!flag(claims, "tie_word_embeddings")) all.push_back({"head.weight", kHead});
    for (i64 layer = 0; layer < sizes.layers; ++layer) {
      const auto add = [&](const char* ours, const char* name, const char* part, i64 row = 0) {
        all.push_back({fmt::format("layers.{}.{}.{}", layer, ours, part),
                       fmt::format("model.layers.{}.{}.{}", layer, name, part),
                       false,
                       {.row = row}});
      };
      add("attention_norm", "input_layernorm", "weight");
      add("mlp_norm", "post_attention_layernorm", "weight");
      const auto add_attention = [&](const char* part) {
        add("attention.qkv", "self_attn.q_proj", part);
        add("attention.qkv", "self_attn.k_proj", part, queries);
        add("attention.qkv", "self_attn.v_proj", part, queries + keys);
        add("attention.proj", "self_attn.o_proj", part);
      };
      const auto add_mlp = [&](const char* part) {
        add("mlp.up", "mlp.gate_proj", part);
        add("mlp.up", "mlp.up_proj", part, sizes.ffn);
        add("mlp.down", "mlp.down_proj", part);
      };
      add_attention("weight");
      add_mlp("weight");
      if (bias) add_attention("bias");
      if (mlp_bias) add_mlp("bias");
    }
    return all;
  }

  std::vector<SharedTensor> do_shared(const Settings& theirs) const override {
    Claims claims("config.json", theirs);
    if (!flag(claims, "tie_word_embeddings")) return {};
    return {{kHead, kTable, {{"tie_word_embeddings", false}}}};
  }
  // Frequencies that earlier versions stored; they follow from rope_theta.
  bool do_redundant(std::string_view name, const Settings&) const override {
    return name.ends_with(".rotary_emb.inv_freq");
  }
};

}  // namespace tessera

TESSERA_PLUGIN(convert_llama, "0.1.0", "Llama of Hugging Face transformers") {
  registrar.add<tessera::Converter, tessera::Llama>(
      "llama", "LlamaForCausalLM of Hugging Face transformers, both ways");
}
