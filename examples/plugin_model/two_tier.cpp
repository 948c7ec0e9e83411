// A GPT whose last blocks are of another kind than those below them.
#include <tessera/error.hpp>
#include <tessera/model.hpp>
#include <tessera/plugin.hpp>

namespace {

using namespace tessera;

class TwoTier final : public Model {
 public:
  // Layers read hidden, heads, positions, dropout, init_std and tied_embeddings from here
  // (`from("model.hidden")`), so that a file says them once.
  struct Config {
    i64 layers = 0, upper = 0, hidden = 0, heads = 0, positions = 0;
    Auto<i64> vocab;
    double dropout = 0.1, init_std = 0.02;
    bool tied_embeddings = true;
    Component<Layer> embedding{"embedding", {}};
    Component<Layer> block{"transformer_block", {}}, upper_block{"transformer_block", {}};
    Component<Layer> head{"lm_head", {}};
    static void describe(Schema<Config>& s) {
      s.field("layers", &Config::layers, "blocks").required().at_least(1).at_most(kMostLayers);
      s.field("upper", &Config::upper, "of these, the last ones that are [model.upper_block]")
          .at_least(0)
          .at_most(kMostLayers)
          .structural();
      s.field("hidden", &Config::hidden, "features of a position")
          .required()
          .at_least(1)
          .at_most(kMostFeatures);
      s.field("heads", &Config::heads, "attention heads")
          .required()
          .at_least(1)
          .at_most(kMostFeatures)
          .structural();
      s.field("positions", &Config::positions, "positions that the model tells apart")
          .from("batch.sequence_length")
          .at_least(1)
          .at_most(kMostPositions);
      s.field("vocab", &Config::vocab, "entries of the vocabulary; \"auto\": the tokenizer's")
          .at_least(1)
          .at_most(kMostVocabulary);
      s.field("dropout", &Config::dropout, "default of every dropout").at_least(0).below(1);
      s.field("init_std", &Config::init_std, "default deviation of initial weights").at_least(0);
      s.field("tied_embeddings", &Config::tied_embeddings, "input and output share one table")
          .structural();
      s.slot("embedding", &Config::embedding, "the first layer");
      s.slot("block", &Config::block, "each block but the upper ones");
      s.slot("upper_block", &Config::upper_block, "each of the upper blocks");
      s.slot("head", &Config::head, "the last layer");
    }
  };

  TwoTier(const Config& config, const ModelArguments& arguments)
      : config_(config), vocab_(config.vocab.value_or(arguments.tokenizer_vocab)) {
    if (config.upper > config.layers) {
      fail_config("model.upper = {} are more than model.layers = {}", config.upper, config.layers);
    }
    if (arguments.sequence_length > config.positions) {
      fail_config("model.positions = {} are fewer than batch.sequence_length = {}",
                  config.positions,
                  arguments.sequence_length);
    }
    if (vocab_ < 1 || vocab_ < arguments.tokenizer_vocab) {
      fail_config("model.vocab = {} is smaller than the tokenizer's vocabulary of {}",
                  vocab_,
                  arguments.tokenizer_vocab);
    }
  }

  std::vector<ModelLayer> do_layers() const override {
    std::vector<ModelLayer> all{{"embedding", ModelLayer::embedding}};
    for (i64 i = 0; i < config_.layers; ++i) {
      all.push_back({fmt::format("layers.{}", i), ModelLayer::block});
    }
    all.push_back({"head", ModelLayer::head});
    return all;
  }

  std::shared_ptr<Layer> do_build(int index, BuildContext& build) const override {
    const Given vocabulary{{"vocab", vocab_}, {"vocab_multiple", i64{128}}};
    if (index == 0) return build.child("", config_.embedding, vocabulary);
    if (index == config_.layers + 1) return build.child("", config_.head, vocabulary);
    const bool upper = index > config_.layers - config_.upper;
    return build.child("", upper ? config_.upper_block : config_.block);
  }

  i64 do_vocabulary() const override { return vocab_; }

 private:
  Config config_;
  i64 vocab_;
};

}  // namespace

TESSERA_PLUGIN(two_tier, "0.1.0", "A model") {
  registrar.add<Model, TwoTier>("two_tier", "a GPT with two kinds of blocks");
}
