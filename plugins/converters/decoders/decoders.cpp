// Llama (Touvron et al. 2023) and families like it, as transformers stores them.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "attention_window.hpp"
#include "family_attention.hpp"
#include "family_tensors.hpp"
#include "layer_kinds.hpp"
#include "layer_mlps.hpp"
#include "tessera/io/json.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

class Decoder : public Converter {
 public:
  using Config = NoConfig;
  explicit Decoder(const Family& family) : family_(family) {}

  std::string_view do_model_type() const override { return family_.type; }
  std::string_view do_optional_prefix() const override { return "model."; }

  Settings do_to_ours(Claims& theirs) const override {
    claim_language_model(theirs, family_.with_head, family_.without_head);
    // auto_map names classes for who trusts code in the folder; the model is that of model_type.
    theirs.harmless({"unk_token_id", "transformers.js_config*", "auto_map*"});
    for (const char* key : family_.harmless) theirs.harmless({key});
    for (const auto& [key, value] : family_.only) theirs.only(key, value);
    FamilyConfig config(family_, theirs);
    if (config.get("hidden_act") != Value("swish")) theirs.only("hidden_act", "silu");
    const FamilySizes sizes(config);
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
                     {"model.head.norm.eps", eps}};
    for (Settings more : {attention_to_ours(config),
                          windows_to_ours(config),
                          mlps_to_ours(config),
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
    // Others have other MLPs and windows at most.
    const std::string& block = blocks.at(0);
    ours.only({{block + ".type", "transformer_block"}, {block + ".norm.type", "rmsnorm"}});
    require_none(ours, "model.predict_ahead");
    Settings theirs = family_.defaults;
    theirs["architectures"] = Value::Array{family_.with_head};
    theirs["num_hidden_layers"] = ours.at("model.layers");
    theirs["hidden_size"] = ours.at("model.hidden");
    theirs["max_position_embeddings"] = ours.at("model.positions");
    theirs["vocab_size"] = ours.at("model.vocab");
    theirs["tie_word_embeddings"] = ours.same({"model.tied_embeddings", "model.head.tied"});
    theirs["rms_norm_eps"] = ours.same({block + ".norm.eps", "model.head.norm.eps"});
    theirs["initializer_range"] = ours.at("model.init_std");
    attention_to_theirs(ours, block, family_, theirs);
    windows_to_theirs(ours, blocks, family_, theirs);
    mlps_to_theirs(ours, blocks, family_, theirs);
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
  bool do_redundant(std::string_view name, const Settings& theirs) const override {
    if (family_.latent) refuse_ahead(name, theirs);
    return name.ends_with(".rotary_emb.inv_freq");
  }

 private:
  // Layers after the last one predict further ahead; transformers passes over them.
  void refuse_ahead(std::string_view name, const Settings& theirs) const {
    constexpr std::string_view kLayer = "layers.";
    if (!name.starts_with(kLayer)) return;
    i64 layer = 0;
    std::from_chars(name.data() + kLayer.size(), name.data() + name.size(), layer);
    Claims claims("config.json", theirs);
    FamilyConfig config(family_, claims);
    const i64 layers = config.integer("num_hidden_layers");
    if (layer < layers) return;
    fail_config(
        "\"model.{}\" is of a layer after the {} of num_hidden_layers: those of {} that predict "
        "further ahead are not read; leave their tensors out, as transformers does",
        name,
        layers,
        family_.name);
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
  tessera::add_family<tessera::deepseek_v3_family>(registrar);
}
