// GPT-2 (Radford et al. 2019) as transformers' GPT2LMHeadModel stores it.
#include <fmt/format.h>

#include "tessera/converter.hpp"
#include "tessera/error.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

namespace {

// What config.json means where it does not say it.
const Settings& defaults() {
  static const Settings kDefaults = {{"activation_function", "gelu_new"},
                                     {"add_cross_attention", false},
                                     {"attn_pdrop", 0.1},
                                     {"embd_pdrop", 0.1},
                                     {"initializer_range", 0.02},
                                     {"layer_norm_epsilon", 1e-5},
                                     {"reorder_and_upcast_attn", false},
                                     {"resid_pdrop", 0.1},
                                     {"scale_attn_by_inverse_layer_idx", false},
                                     {"scale_attn_weights", true},
                                     {"tie_word_embeddings", true}};
  return kDefaults;
}

Value get(const Settings& settings, std::string_view key) {
  if (const auto found = settings.find(key); found != settings.end()) return found->second;
  if (const auto found = defaults().find(key); found != defaults().end()) return found->second;
  fail_config("config.json has no \"{}\"", key);
}

i64 integer(const Settings& settings, std::string_view key) {
  const Value value = get(settings, key);
  const auto* number = std::get_if<i64>(&value.data);
  if (number == nullptr) fail_config("\"{}\" is {}, which is no integer", key, value.text());
  return *number;
}

bool flag(const Settings& settings, std::string_view key) {
  return get(settings, key) == Value(true);
}

// One key of several places here, which there have one value.
Value same(const Settings& ours, const std::vector<std::string>& keys) {
  const auto at = [&](const std::string& key) {
    const auto found = ours.find(key);
    if (found == ours.end()) fail_config("the model has no \"{}\": it is no GPT-2", key);
    return found->second;
  };
  for (const std::string& key : keys) {
    if (at(key) == at(keys[0])) continue;
    fail_config("{} = {} and {} = {}: GPT-2 has one value for both",
                keys[0],
                at(keys[0]).text(),
                key,
                at(key).text());
  }
  return at(keys[0]);
}

// A pattern may name kinds of blocks; in GPT-2 all of them are as [model.block] is.
void require_one_kind(const Settings& ours) {
  constexpr std::string_view kKinds = "model.blocks.";
  for (auto at = ours.lower_bound(kKinds); at != ours.end(); ++at) {
    const auto& [key, value] = *at;
    if (!key.starts_with(kKinds)) return;
    const auto block = ours.find("model.block" + key.substr(key.find('.', kKinds.size())));
    if (block != ours.end() && block->second == value) continue;
    fail_config(
        "{} = {} differs from [model.block]: GPT-2 has blocks of one kind", key, value.text());
  }
}

}  // namespace

class Gpt2 final : public Converter {
 public:
  using Config = NoConfig;
  Gpt2(const Config&, ConverterArguments&) {}

  std::string_view model_type() const override { return "gpt2"; }
  std::string_view optional_prefix() const override { return "transformer."; }

  Settings to_ours(const Settings& theirs) const override {
    for (const auto& [key, value] : Settings{{"activation_function", "gelu_new"},
                                             {"add_cross_attention", false},
                                             {"scale_attn_by_inverse_layer_idx", false},
                                             {"scale_attn_weights", true}}) {
      if (get(theirs, key) == value) continue;
      fail_config("config.json has {} = {}; only {} is supported",
                  key,
                  get(theirs, key).text(),
                  value.text());
    }
    const i64 hidden = integer(theirs, "n_embd"), positions = integer(theirs, "n_positions");
    const bool inner = theirs.contains("n_inner");
    const Value eps = get(theirs, "layer_norm_epsilon"), inside = get(theirs, "resid_pdrop");
    return {{"model.type", "gpt"},
            {"model.layers", integer(theirs, "n_layer")},
            {"model.hidden", hidden},
            {"model.heads", integer(theirs, "n_head")},
            {"model.positions", positions},
            {"model.vocab", integer(theirs, "vocab_size")},
            {"model.tied_embeddings", flag(theirs, "tie_word_embeddings")},
            {"model.dropout", inside},
            {"model.init_std", get(theirs, "initializer_range")},
            {"model.embedding.dropout", get(theirs, "embd_pdrop")},
            {"model.block.attention.dropout", get(theirs, "attn_pdrop")},
            {"model.block.mlp.ffn", inner ? integer(theirs, "n_inner") : 4 * hidden},
            {"model.block.norm.eps", eps},
            {"model.head.norm.eps", eps},
            {"batch.global", 1},
            {"batch.micro", 1},
            {"batch.sequence_length", positions},
            {"run.name", "gpt2"},
            {"run.steps", 1},
            {"lr.peak", 1e-5},
            {"data.type", "text"},
            {"data.path", "text.txt"}};
  }

  Settings to_theirs(const Settings& ours) const override {
    const auto require_value = [&](const std::string& key, const Value& wanted) {
      if (const Value value = same(ours, {key}); value != wanted) {
        fail_config("{} = {}; GPT-2 has {}", key, value.text(), wanted.text());
      }
    };
    require_value("model.type", "gpt");
    require_value("model.embedding.type", "embedding");
    require_value("model.block.type", "transformer_block");
    require_value("model.block.norm.type", "layernorm");
    require_value("model.block.attention.type", "self_attention");
    require_value("model.block.mlp.type", "mlp");
    require_value("model.head.type", "lm_head");
    require_value("model.head.norm.type", "layernorm");
    require_value("model.block.attention.causal", true);
    require_one_kind(ours);
    const Value heads = same(ours, {"model.block.attention.heads"});
    const Value groups = same(ours, {"model.block.attention.kv_heads"});
    if (groups != heads && groups != Value("auto")) {
      fail_config("model.block.attention.kv_heads = {}: GPT-2 has as many as heads", groups.text());
    }
    const Value ffn = same(ours, {"model.block.mlp.ffn"});
    Settings theirs = defaults();
    theirs["architectures"] = Value::Array{"GPT2LMHeadModel"};
    theirs["n_layer"] = same(ours, {"model.layers"});
    theirs["n_embd"] = same(ours, {"model.hidden"});
    theirs["n_head"] = heads;
    // The rows of its table, which may be more than model.positions.
    theirs["n_positions"] = same(ours, {"model.embedding.positions"});
    theirs["n_ctx"] = theirs["n_positions"];
    theirs["vocab_size"] = same(ours, {"model.vocab"});
    if (ffn != Value("auto")) theirs["n_inner"] = ffn;
    theirs["tie_word_embeddings"] = same(ours, {"model.tied_embeddings", "model.head.tied"});
    theirs["resid_pdrop"] = same(ours, {"model.block.dropout"});
    theirs["embd_pdrop"] = same(ours, {"model.embedding.dropout"});
    theirs["attn_pdrop"] = same(ours, {"model.block.attention.dropout"});
    theirs["layer_norm_epsilon"] = same(ours, {"model.block.norm.eps", "model.head.norm.eps"});
    theirs["initializer_range"] = same(ours, {"model.init_std"});
    return theirs;
  }

  std::vector<std::string> tokenizer_files() const override { return {"vocab.json", "merges.txt"}; }
  Settings tokenizer(const std::string& folder) const override {
    return {{"tokenizer.type", "gpt2"}, {"tokenizer.path", folder}};
  }

  // Its Conv1D keeps matrices as [in, out]; c_attn holds queries, keys and values in this order.
  std::vector<ConvertedTensor> tensors(const Settings& theirs) const override {
    std::vector<ConvertedTensor> all = {{"embedding.weight", "transformer.wte.weight"},
                                        {"embedding.position", "transformer.wpe.weight"}};
    constexpr std::pair<const char*, const char*> kNorms[] = {{"attention_norm", "ln_1"},
                                                              {"mlp_norm", "ln_2"}};
    constexpr std::pair<const char*, const char*> kLinears[] = {{"attention.qkv", "attn.c_attn"},
                                                                {"attention.proj", "attn.c_proj"},
                                                                {"mlp.up", "mlp.c_fc"},
                                                                {"mlp.down", "mlp.c_proj"}};
    for (i64 layer = 0; layer < integer(theirs, "n_layer"); ++layer) {
      const auto add = [&](const auto& names, const char* part, bool transposed) {
        all.push_back({fmt::format("layers.{}.{}.{}", layer, names.first, part),
                       fmt::format("transformer.h.{}.{}.{}", layer, names.second, part),
                       transposed});
      };
      for (const auto& norm : kNorms) {
        add(norm, "weight", false);
        add(norm, "bias", false);
      }
      for (const auto& linear : kLinears) {
        add(linear, "weight", true);
        add(linear, "bias", false);
      }
    }
    all.push_back({"head.norm.weight", "transformer.ln_f.weight"});
    all.push_back({"head.norm.bias", "transformer.ln_f.bias"});
    if (!flag(theirs, "tie_word_embeddings")) all.push_back({"head.weight", "lm_head.weight"});
    return all;
  }

  // Causal masks of earlier versions, and the second name of the tied table.
  bool redundant(std::string_view name, const Settings& theirs) const override {
    if (name == "lm_head.weight") return flag(theirs, "tie_word_embeddings");
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  }
};

}  // namespace tessera

TESSERA_PLUGIN(convert_gpt2, "0.1.0", "GPT-2 of Hugging Face transformers") {
  registrar.add<tessera::Converter, tessera::Gpt2>(
      "gpt2", "GPT2LMHeadModel of Hugging Face transformers, both ways");
}
