// GPT-2 (Radford et al. 2019) as transformers' GPT2LMHeadModel stores it.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ranges>

#include "tessera/converter.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/log.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

namespace {

// The values of keys that config.json leaves out.
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

// transformers' general names for settings, and GPT-2's own.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"n_embd", "hidden_size"},
    {"n_head", "num_attention_heads"},
    {"n_layer", "num_hidden_layers"},
    {"n_positions", "max_position_embeddings"}};

// A size under either of its names.
i64 size_of(Claims& theirs, std::string_view key) {
  for (const auto& [own, other] : kOtherNames) {
    if (own != key || theirs.find(other) == nullptr) continue;
    const i64 size = theirs.integer(other);
    if (theirs.find(own) != nullptr && theirs.integer(own) != size) {
      fail_config("{} has {} = {} and {} = {}: it is one number",
                  theirs.file(),
                  own,
                  theirs.integer(own),
                  other,
                  size);
    }
    return size;
  }
  return theirs.integer(key);
}

Value get(Claims& theirs, std::string_view key) {
  return theirs.get(key, defaults().find(key)->second);
}

bool tied(const Settings& theirs) {
  const auto found = theirs.find("tie_word_embeddings");
  return found == theirs.end() || found->second == Value(true);
}

// The same function has several names there.
constexpr std::pair<std::string_view, std::string_view> kActivations[] = {
    {"gelu_new", "gelu"},
    {"gelu_pytorch_tanh", "gelu"},
    {"gelu_python_tanh", "gelu"},
    {"gelu_accurate", "gelu"},
    {"gelu_fast", "gelu"},
    {"gelu", "gelu_erf"},
    {"gelu_python", "gelu_erf"}};

Value activation_of(Claims& theirs) {
  const Value name = get(theirs, "activation_function");
  for (const auto& [there, here] : kActivations) {
    if (name == Value(there)) return here;
  }
  fail_config("{} has activation_function = {}; only the forms of gelu are supported: {}",
              theirs.file(),
              name.text(),
              fmt::join(std::views::keys(kActivations), ", "));
}

constexpr const char* kClass = "GPT2LMHeadModel";

// Claims keys of other heads, of how a program runs the model, and of earlier versions.
void claim_harmless(Claims& theirs) {
  claim_language_model(theirs, kClass, "GPT2Model");
  theirs.harmless({"reorder_and_upcast_attn", "summary_*", "predict_special_tokens"});
  theirs.only("add_cross_attention", false);
  theirs.only("scale_attn_by_inverse_layer_idx", false);
  theirs.only("scale_attn_weights", true);
}

constexpr std::string_view kEnd = "<|endoftext|>";

}  // namespace

class Gpt2 final : public Converter {
 public:
  using Config = NoConfig;
  Gpt2(const Config&, ConverterArguments&) {}

  std::string_view do_model_type() const override { return "gpt2"; }
  std::string_view do_optional_prefix() const override { return "transformer."; }

  Settings do_to_ours(Claims& theirs) const override {
    claim_harmless(theirs);
    const i64 hidden = size_of(theirs, "n_embd"), positions = size_of(theirs, "n_positions");
    theirs.only("n_ctx", positions);
    const bool inner = theirs.find("n_inner") != nullptr;
    const Value eps = get(theirs, "layer_norm_epsilon"), inside = get(theirs, "resid_pdrop");
    Settings ours = usual_run("gpt2", positions);
    ours.merge(Settings{{"model.type", "gpt"},
                        {"model.layers", size_of(theirs, "n_layer")},
                        {"model.hidden", hidden},
                        {"model.heads", size_of(theirs, "n_head")},
                        {"model.positions", positions},
                        {"model.vocab", theirs.integer("vocab_size")},
                        {"model.tied_embeddings", theirs.flag("tie_word_embeddings", true)},
                        {"model.dropout", inside},
                        {"model.init_std", get(theirs, "initializer_range")},
                        {"model.embedding.dropout", get(theirs, "embd_pdrop")},
                        {"model.block.attention.dropout", get(theirs, "attn_pdrop")},
                        {"model.block.mlp.activation", activation_of(theirs)},
                        {"model.block.mlp.ffn", inner ? theirs.integer("n_inner") : 4 * hidden},
                        {"model.block.norm.eps", eps},
                        {"model.head.norm.eps", eps}});
    return ours;
  }

  Settings do_to_theirs(const Settings& all) const override {
    const ModelKeys ours(all, "GPT-2");
    ours.only({{"model.type", "gpt"},
               {"model.embedding.type", "embedding"},
               {"model.block.type", "transformer_block"},
               {"model.block.norm.type", "layernorm"},
               {"model.block.attention.type", "self_attention"},
               {"model.block.mlp.type", "mlp"},
               {"model.head.type", "lm_head"},
               {"model.head.norm.type", "layernorm"},
               {"model.block.attention.causal", true}});
    ours.only_one_kind();
    for (const char* slot : {"rotary", "q_norm", "k_norm"}) {
      const std::string key = fmt::format("model.block.attention.{}.type", slot);
      const Value* type = ours.find(key);  // an empty type: nothing is written
      if (type != nullptr && *type != Value("")) ours.only(key, "none");
    }
    const Value heads = ours.at("model.block.attention.heads");
    const Value groups = ours.at("model.block.attention.kv_heads", heads);
    if (groups != heads) {
      fail_config("model.block.attention.kv_heads = {}: GPT-2 has as many as heads", groups.text());
    }
    const Value ffn = ours.at("model.block.mlp.ffn");
    const Value activation = ours.at("model.block.mlp.activation");
    Settings theirs = defaults();
    const auto* name = std::ranges::find(
        kActivations, activation, [](const auto& pair) { return Value(pair.second); });
    if (name == std::end(kActivations)) {
      fail_config("model.block.mlp.activation = {}: GPT-2 has gelu or gelu_erf", activation.text());
    }
    theirs["activation_function"] = name->first;
    theirs["architectures"] = Value::Array{kClass};
    theirs["n_layer"] = ours.at("model.layers");
    theirs["n_embd"] = ours.at("model.hidden");
    theirs["n_head"] = heads;
    // The rows of the model's table, which may be more than model.positions.
    theirs["n_positions"] = ours.at("model.embedding.positions");
    theirs["n_ctx"] = theirs["n_positions"];
    theirs["vocab_size"] = ours.at("model.vocab");
    if (ffn != Value("auto")) theirs["n_inner"] = ffn;
    theirs["tie_word_embeddings"] = ours.same({"model.tied_embeddings", "model.head.tied"});
    theirs["resid_pdrop"] = ours.at("model.block.dropout");
    theirs["embd_pdrop"] = ours.at("model.embedding.dropout");
    theirs["attn_pdrop"] = ours.at("model.block.attention.dropout");
    theirs["layer_norm_epsilon"] = ours.same({"model.block.norm.eps", "model.head.norm.eps"});
    theirs["initializer_range"] = ours.at("model.init_std");
    return theirs;
  }

  TokenizerFiles do_tokenizer_files() const override {
    return {.sets = {{"tokenizer.json"}, {"vocab.json", "merges.txt"}},
            .others = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}};
  }
  Settings do_tokenizer(const std::string& folder,
                        const std::vector<std::string>& /*files*/,
                        const Settings& theirs) const override {
    return tokenizer_in(folder, "gpt2", theirs);
  }
  TokenIds do_token_ids(const Tokenizer* tokenizer, const Settings& written) const override {
    return named_tokens(tokenizer, written, std::string(kEnd));
  }
  std::string do_tokenizer_config(const Tokenizer& tokenizer, const Settings& ours) const override {
    Json config, added;
    config.add("tokenizer_class", "GPT2Tokenizer").add("add_prefix_space", false);
    std::vector<std::string> special = {std::string(kEnd)};
    if (const auto found = ours.find("tokenizer.special"); found != ours.end()) {
      if (const auto* texts = std::get_if<Value::Array>(&found->second.data)) {
        special.clear();
        for (const Value& text : *texts) special.push_back(std::get<std::string>(text.data));
      }
    }
    for (const std::string& text : special) {
      const std::optional<i64> id = token_of(tokenizer, text);
      if (!id) continue;
      Json token;
      token.add("content", text).add("special", true).add("normalized", false);
      for (const char* key : {"lstrip", "rstrip", "single_word"}) token.add(key, false);
      added.add(fmt::format("{}", *id), token);
    }
    config.add("added_tokens_decoder", added);
    const bool ends = std::ranges::find(special, kEnd) != special.end() &&
                      token_of(tokenizer, std::string(kEnd)).has_value();
    for (const char* name : {"bos_token", "eos_token", "unk_token"}) {
      config.add(name, ends ? Json(kEnd) : Json(std::nan("")));  // else the class names it itself
    }
    return config.text() + "\n";
  }

  // Its Conv1D keeps matrices as [in, out]; c_attn holds queries, keys and values in this order.
  std::vector<ConvertedTensor> do_tensors(const Settings& theirs) const override {
    std::vector<ConvertedTensor> all = {{"embedding.weight", "transformer.wte.weight"},
                                        {"embedding.position", "transformer.wpe.weight"}};
    constexpr std::pair<const char*, const char*> kNorms[] = {{"attention_norm", "ln_1"},
                                                              {"mlp_norm", "ln_2"}};
    constexpr std::pair<const char*, const char*> kLinears[] = {{"attention.qkv", "attn.c_attn"},
                                                                {"attention.proj", "attn.c_proj"},
                                                                {"mlp.up", "mlp.c_fc"},
                                                                {"mlp.down", "mlp.c_proj"}};
    Claims sizes("config.json", theirs);
    const i64 layers = size_of(sizes, "n_layer");
    for (i64 layer = 0; layer < layers; ++layer) {
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
    if (!tied(theirs)) all.push_back({"head.weight", "lm_head.weight"});
    return all;
  }

  std::vector<SharedTensor> do_shared(const Settings& theirs) const override {
    if (!tied(theirs)) return {};
    return {{"lm_head.weight", "transformer.wte.weight", {{"tie_word_embeddings", false}}}};
  }
  // Causal masks of earlier versions.
  bool do_redundant(std::string_view name, const Settings&) const override {
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  }
};

}  // namespace tessera

TESSERA_PLUGIN(convert_gpt2, "0.1.0", "GPT-2 of Hugging Face transformers") {
  registrar.add<tessera::Converter, tessera::Gpt2>(
      "gpt2", "GPT2LMHeadModel of Hugging Face transformers, both ways");
}
