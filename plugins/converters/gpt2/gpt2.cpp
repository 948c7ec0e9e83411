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
Value one_class(const char* name) { return Value::Array{name}; }

// Claims keys of other heads, of how a program runs the model, and of earlier versions.
void claim_harmless(Claims& theirs) {
  constexpr const char* kHeadless = "GPT2Model";
  claim_common_keys(theirs, {kClass, kHeadless});
  if (const Value* names = theirs.find("architectures"); names && *names != one_class(kClass)) {
    log_warning("{} has architectures = {}: the model is read as {}, whose head it may lack",
                theirs.file(),
                names->text(),
                kClass);
  }
  theirs.harmless({"reorder_and_upcast_attn", "summary_*", "predict_special_tokens"});
  theirs.only("add_cross_attention", false);
  theirs.only("scale_attn_by_inverse_layer_idx", false);
  theirs.only("scale_attn_weights", true);
}

constexpr std::string_view kEnd = "<|endoftext|>";

// The number of a text that is one token.
std::optional<i64> token_of(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<i32> ids = tokenizer.encode(text);
  return ids.size() == 1 ? std::optional<i64>(ids[0]) : std::nullopt;
}

// The value of keys that must be equal here, because they are one key there.
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

  std::string_view do_model_type() const override { return "gpt2"; }
  std::string_view do_optional_prefix() const override { return "transformer."; }

  Settings do_to_ours(Claims& theirs) const override {
    claim_harmless(theirs);
    const i64 hidden = size_of(theirs, "n_embd"), positions = size_of(theirs, "n_positions");
    theirs.only("n_ctx", positions);
    const bool inner = theirs.find("n_inner") != nullptr;
    const Value eps = get(theirs, "layer_norm_epsilon"), inside = get(theirs, "resid_pdrop");
    return {{"model.type", "gpt"},
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

  Settings do_to_theirs(const Settings& ours) const override {
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
    const Value activation = same(ours, {"model.block.mlp.activation"});
    Settings theirs = defaults();
    const auto* name = std::ranges::find(
        kActivations, activation, [](const auto& pair) { return Value(pair.second); });
    if (name == std::end(kActivations)) {
      fail_config("model.block.mlp.activation = {}: GPT-2 has gelu or gelu_erf", activation.text());
    }
    theirs["activation_function"] = name->first;
    theirs["architectures"] = one_class(kClass);
    theirs["n_layer"] = same(ours, {"model.layers"});
    theirs["n_embd"] = same(ours, {"model.hidden"});
    theirs["n_head"] = heads;
    // The rows of the model's table, which may be more than model.positions.
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

  TokenizerFiles do_tokenizer_files() const override {
    return {.sets = {{"tokenizer.json"}, {"vocab.json", "merges.txt"}},
            .others = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}};
  }
  Settings do_tokenizer(const std::string& folder, const Settings& theirs) const override {
    Settings ours = {{"tokenizer.type", "gpt2"}, {"tokenizer.path", folder}};
    // The model has no rows for more.
    if (const auto rows = theirs.find("vocab_size"); rows != theirs.end()) {
      ours["tokenizer.most_tokens"] = rows->second;
    }
    return ours;
  }
  TokenIds do_token_ids(const Tokenizer* tokenizer, const Settings& written) const override {
    TokenIds ids;
    for (const std::string name : {"bos_token", "eos_token"}) {
      const auto found = std::ranges::find_if(written, [&](const auto& entry) {
        return entry.first == name || entry.first == name + ".content";
      });
      const auto* text =
          found == written.end() ? nullptr : std::get_if<std::string>(&found->second.data);
      ids[name + "_id"] = tokenizer == nullptr
                              ? std::nullopt
                              : token_of(*tokenizer, text == nullptr ? std::string(kEnd) : *text);
    }
    return ids;
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
