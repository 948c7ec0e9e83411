// Llama (Touvron et al. 2023) and families like it, as transformers stores them.
#include <fmt/format.h>

#include "family_config.hpp"
#include "family_tensors.hpp"
#include "layer_mlps.hpp"
#include "rotary.hpp"
#include "tessera/io/json.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

namespace {

constexpr const char* kBlock = "model.block";

std::string attention(std::string_view key, const std::string& block = kBlock) {
  return fmt::format("{}.attention.{}", block, key);
}

// Nothing is in this slot; where none is by default, its type is empty or not written.
void require_none(const ModelKeys& ours, const std::string& slot) {
  const Value* type = ours.find(slot + ".type");
  if (type != nullptr && *type != Value("")) ours.only(slot + ".type", "none");
}

}  // namespace

class Decoder : public Converter {
 public:
  using Config = NoConfig;
  explicit Decoder(const Family& family) : family_(family) {}

  std::string_view do_model_type() const override { return family_.type; }
  std::string_view do_optional_prefix() const override { return "model."; }

  Settings do_to_ours(Claims& theirs) const override {
    claim_language_model(theirs, family_.with_head, family_.without_head);
    theirs.harmless({"unk_token_id", "transformers.js_config*"});
    for (const char* key : family_.harmless) theirs.harmless({key});
    for (const auto& [key, value] : family_.only) theirs.only(key, value);
    FamilyConfig config(family_, theirs);
    if (config.get("hidden_act") != Value("swish")) theirs.only("hidden_act", "silu");
    require_full_attention(config);
    const FamilySizes sizes(config);
    const FamilyBiases biases(config);
    const i64 positions = config.integer("max_position_embeddings");
    const Value eps = config.get("rms_norm_eps");
    Settings ours = {{"model.type", "gpt"},
                     {"model.embedding.learned_positions", false},
                     {"model.block.norm.type", "rmsnorm"},
                     {"model.head.norm.type", "rmsnorm"},
                     {"model.layers", sizes.layers},
                     {"model.hidden", sizes.hidden},
                     {"model.heads", sizes.heads},
                     {"model.positions", positions},
                     {"model.vocab", config.integer("vocab_size")},
                     {"model.tied_embeddings", config.flag("tie_word_embeddings")},
                     {"model.dropout", 0.0},
                     {"model.init_std", config.get("initializer_range")},
                     {"model.block.norm.eps", eps},
                     {"model.head.norm.eps", eps},
                     {attention("kv_heads"), sizes.groups},
                     {attention("head_size"), sizes.head},
                     {attention("qkv.bias"), biases.qkv},
                     {attention("proj.bias"), biases.proj},
                     {attention("dropout"), config.get("attention_dropout")}};
    for (const std::string slot : kHeadNorms) {
      if (!family_.head_norms) continue;
      ours[attention(slot + ".type")] = "rmsnorm";
      ours[attention(slot + ".eps")] = eps;
    }
    for (Settings more : {mlps_to_ours(config),
                          rotary_to_ours(theirs, positions, family_.rope_theta),
                          usual_run(family_.type, positions)}) {
      ours.merge(more);
    }
    return ours;
  }

  Settings do_to_theirs(const Settings& all) const override {
    const ModelKeys ours(all, family_.name);
    ours.only({{"model.type", "gpt"},
               {"model.embedding.type", "embedding"},
               {"model.embedding.learned_positions", false},
               {"model.head.type", "lm_head"},
               {"model.head.norm.type", "rmsnorm"}});
    const std::vector<std::string> blocks = blocks_of(all, ours, family_);
    const std::string& block = blocks.at(0);  // others have other MLPs at most
    const auto attention = [&](std::string_view key) { return tessera::attention(key, block); };
    ours.only({{block + ".type", "transformer_block"},
               {block + ".norm.type", "rmsnorm"},
               {attention("type"), "self_attention"},
               {attention("causal"), true}});
    const i64 hidden = ours.integer("model.hidden"), heads = ours.integer(attention("heads"));
    Settings theirs = family_.defaults;
    theirs["architectures"] = Value::Array{family_.with_head};
    theirs["num_hidden_layers"] = ours.at("model.layers");
    theirs["hidden_size"] = hidden;
    theirs["num_attention_heads"] = heads;
    theirs["num_key_value_heads"] = ours.at(attention("kv_heads"), heads);
    theirs["head_dim"] = ours.at(attention("head_size"), heads > 0 ? hidden / heads : 0);
    theirs["max_position_embeddings"] = ours.at("model.positions");
    theirs["vocab_size"] = ours.at("model.vocab");
    theirs["tie_word_embeddings"] = ours.same({"model.tied_embeddings", "model.head.tied"});
    theirs["attention_dropout"] = ours.at(attention("dropout"));
    theirs["rms_norm_eps"] = norms_to_theirs(ours, block);
    theirs["initializer_range"] = ours.at("model.init_std");
    biases_to_theirs(ours, block, theirs);
    mlps_to_theirs(ours, blocks, family_, theirs);
    // A window that no position is outside of: a key that is absent would be a smaller one.
    if (family_.windows == Windows::every) theirs["sliding_window"] = ours.at("model.positions");
    Settings rotary = rotary_to_theirs(ours, block, family_.name);
    theirs.merge(rotary);
    return theirs;
  }

  TokenizerFiles do_tokenizer_files() const override {
    return {.sets = {{"tokenizer.json"}, {"tokenizer.model"}},
            .others = {"tokenizer_config.json",
                       "special_tokens_map.json",
                       "added_tokens.json",
                       // What tokenizer.json was made of.
                       "tokenizer.model.v3",
                       "tekken.json",
                       "vocab.json",
                       "merges.txt"}};
  }
  Settings do_tokenizer(const std::string& folder,
                        const std::vector<std::string>& files,
                        const Settings& theirs) const override {
    const bool json = std::ranges::find(files, "tokenizer.json") != files.end();
    if (json || files.empty()) return tokenizer_in(folder, "huggingface", theirs);
    // All its tokens are in the model's file, so there are none to leave out.
    return {{"tokenizer.type", "sentencepiece"}, {"tokenizer.path", folder}};
  }
  TokenIds do_token_ids(const Tokenizer* tokenizer, const Settings& written) const override {
    return named_tokens(tokenizer, written, std::nullopt);
  }
  std::string do_tokenizer_config(const Tokenizer&, const Settings& ours) const override {
    Json config;
    const auto type = ours.find("tokenizer.type");
    if (type != ours.end() && type->second == Value("sentencepiece")) {
      config.add("tokenizer_class", "LlamaTokenizer").add("legacy", true);
      config.add("add_bos_token", false).add("add_eos_token", false);
    } else {
      // It takes tokenizer.json as it is; transformers 4 has a class that puts a token first.
      config.add("tokenizer_class", "PreTrainedTokenizerFast");
    }
    return config.text() + "\n";
  }
  // The same settings for the program of those who made the model.
  bool do_harmless_file(std::string_view name) const override { return name == "params.json"; }

  std::vector<ConvertedTensor> do_tensors(const Settings& theirs) const override {
    Claims claims("config.json", theirs);
    FamilyConfig config(family_, claims);
    return family_tensors(config);
  }

  std::vector<SharedTensor> do_shared(const Settings& theirs) const override {
    Claims claims("config.json", theirs);
    FamilyConfig config(family_, claims);
    return family_shared(config);
  }
  // Frequencies that earlier versions stored; they follow from rope_theta.
  bool do_redundant(std::string_view name, const Settings&) const override {
    return name.ends_with(".rotary_emb.inv_freq");
  }

 private:
  // The epsilon of all norms.
  Value norms_to_theirs(const ModelKeys& ours, const std::string& block) const {
    std::vector<std::string> eps = {block + ".norm.eps", "model.head.norm.eps"};
    for (const std::string slot : kHeadNorms) {
      if (family_.head_norms) {
        ours.only(attention(slot + ".type", block), "rmsnorm");
        eps.push_back(attention(slot + ".eps", block));
      } else {
        require_none(ours, attention(slot, block));
      }
    }
    return ours.same(eps);
  }

  // Sets the key that the family has; without it, biases are as they always are.
  void biases_to_theirs(const ModelKeys& ours, const std::string& block, Settings& theirs) const {
    const std::string qkv = attention("qkv.bias", block), proj = attention("proj.bias", block);
    if (theirs.contains("attention_bias")) {
      theirs["attention_bias"] = ours.same({qkv, proj});
    } else {
      ours.only({{qkv, family_.qkv_bias}, {proj, false}});
    }
  }

  const Family& family_;
};

namespace {

template <const Family& (*kFamily)()>
class DecoderOf final : public Decoder {
 public:
  DecoderOf(const NoConfig&, ConverterArguments&) : Decoder(kFamily()) {}
};

template <const Family& (*kFamily)()>
void add_family(Registrar& registrar) {
  registrar.add<Converter, DecoderOf<kFamily>>(kFamily().type, kFamily().doc);
}

}  // namespace

}  // namespace tessera

TESSERA_PLUGIN(convert_decoders,
               "0.1.0",
               "Llama and families like it of Hugging Face transformers") {
  tessera::add_family<tessera::llama_family>(registrar);
  tessera::add_family<tessera::mistral_family>(registrar);
  tessera::add_family<tessera::qwen2_family>(registrar);
  tessera::add_family<tessera::qwen3_family>(registrar);
  tessera::add_family<tessera::mixtral_family>(registrar);
  tessera::add_family<tessera::qwen3_moe_family>(registrar);
}
