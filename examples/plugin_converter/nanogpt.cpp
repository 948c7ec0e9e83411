// A GPT in a folder of the Hugging Face form, whose files have names and settings of their own.
#include <tessera/converter.hpp>
#include <tessera/error.hpp>
#include <tessera/plugin.hpp>

namespace {

using namespace tessera;

const Value& get(const Settings& ours, std::string_view key) {
  const auto found = ours.find(key);
  if (found == ours.end()) fail_config("the configuration has no \"{}\"", key);
  return found->second;
}

// Settings that are one number there and here.
constexpr std::pair<const char*, const char*> kSame[] = {{"n_layer", "model.layers"},
                                                         {"n_head", "model.heads"},
                                                         {"n_embd", "model.hidden"},
                                                         {"block_size", "model.positions"},
                                                         {"vocab_size", "model.vocab"}};
// What a model of this kind always is, and what is not said there.
const Settings kFixed = {{"model.type", "gpt"},
                         {"model.tied_embeddings", true},
                         {"model.block.attention.causal", true},
                         {"model.block.mlp.activation", "gelu_erf"},
                         {"model.block.norm.eps", 1e-5},
                         {"model.head.norm.eps", 1e-5}};

class Nanogpt final : public Converter {
 public:
  using Config = NoConfig;
  Nanogpt(const Config&, ConverterArguments&) {}

  std::string_view do_model_type() const override { return "nanogpt"; }

  // Every key is read, said to be harmless, or refused; the host refuses what is left.
  Settings do_to_ours(Claims& theirs) const override {
    claim_common_keys(theirs, {"GPT"});
    theirs.only("bias", true);
    Settings ours = kFixed;
    for (const auto& [there, here] : kSame) ours[here] = theirs.integer(there);
    ours["model.dropout"] = theirs.get("dropout", 0.0);
    ours["batch.sequence_length"] = ours["model.positions"];
    // What a configuration must have, and the model does not say.
    for (const char* key : {"batch.global", "batch.micro", "run.steps"}) ours[key] = 1;
    ours["run.name"] = "nanogpt";
    ours["lr.peak"] = 1e-5;
    ours["data.type"] = "text";
    ours["data.path"] = "text.txt";
    return ours;
  }

  Settings do_to_theirs(const Settings& ours) const override {
    for (const auto& [key, value] : kFixed) {
      if (const Value& own = get(ours, key); own != value) {
        fail_config("{} = {}; this format has {} only", key, own.text(), value.text());
      }
    }
    const i64 hidden = std::get<i64>(get(ours, "model.hidden").data);
    const Value& ffn = get(ours, "model.block.mlp.ffn");
    if (ffn != Value("auto") && ffn != Value(4 * hidden)) {
      fail_config("model.block.mlp.ffn = {}; this format has 4 · model.hidden only", ffn.text());
    }
    Settings theirs;
    for (const auto& [there, here] : kSame) theirs[there] = get(ours, here);
    theirs["dropout"] = get(ours, "model.block.dropout");
    return theirs;
  }

  // Its matrices are [out, in], as those here are. A transposed one has `true` in third place.
  std::vector<ConvertedTensor> do_tensors(const Settings& theirs) const override {
    std::vector<ConvertedTensor> all = {{"embedding.weight", "wte.weight"},
                                        {"embedding.position", "wpe.weight"}};
    constexpr std::pair<const char*, const char*> kParts[] = {{"attention_norm", "ln_1"},
                                                              {"attention.qkv", "attn.c_attn"},
                                                              {"attention.proj", "attn.c_proj"},
                                                              {"mlp_norm", "ln_2"},
                                                              {"mlp.up", "mlp.c_fc"},
                                                              {"mlp.down", "mlp.c_proj"}};
    const i64 layers = Claims("config.json", theirs).integer("n_layer");
    for (i64 layer = 0; layer < layers; ++layer) {
      for (const auto& [here, there] : kParts) {
        for (const char* part : {"weight", "bias"}) {
          all.push_back({fmt::format("layers.{}.{}.{}", layer, here, part),
                         fmt::format("h.{}.{}.{}", layer, there, part)});
        }
      }
    }
    all.push_back({"head.norm.weight", "ln_f.weight"});
    all.push_back({"head.norm.bias", "ln_f.bias"});
    return all;
  }

  // The output's table is the input's: files may have it under one name, the other, or both.
  std::vector<SharedTensor> do_shared(const Settings&) const override {
    return {{"lm_head.weight", "wte.weight"}};
  }
};

}  // namespace

TESSERA_PLUGIN(nanogpt, "0.1.0", "A converter") {
  registrar.add<Converter, Nanogpt>("nanogpt",
                                    "GPTs whose config.json says \"nanogpt\", both ways");
}
