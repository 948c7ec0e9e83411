#include "block_kinds.hpp"
#include "tessera/model.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// GPT: embedding, a row of blocks of one kind or several, head.
class Gpt final : public Model {
 public:
  struct Config {
    i64 layers = 0, hidden = 0, heads = 0, positions = 0;
    Auto<i64> vocab;
    i64 vocab_multiple = 128;
    double dropout = 0.1, init_std = 0.02;
    bool tied_embeddings = true;
    std::string pattern;
    Component<Layer> embedding{"embedding", {}};
    Component<Layer> block{"transformer_block", {}};
    BlockKinds blocks;
    Component<Layer> head{"lm_head", {}};
    static void describe(Schema<Config>& s) {
      s.field("layers", &Config::layers, "transformer blocks")
          .required()
          .at_least(1)
          .at_most(kMostLayers)
          .megatron("--num-layers")
          .also("n_layer num_hidden_layers");
      s.field("hidden", &Config::hidden, "features of a position")
          .required()
          .at_least(1)
          .at_most(kMostFeatures)
          .megatron("--hidden-size")
          .also("d_model hidden_dim n_embd");
      s.field("heads", &Config::heads, "attention heads")
          .required()
          .at_least(1)
          .at_most(kMostFeatures)
          .structural()
          .megatron("--num-attention-heads")
          .also("n_head");
      s.field("positions", &Config::positions, "positions that the model tells apart")
          .from("batch.sequence_length")
          .at_least(1)
          .at_most(kMostPositions)
          .megatron("--max-position-embeddings");
      s.field("vocab", &Config::vocab, "entries of the vocabulary; \"auto\": the tokenizer's")
          .at_least(1)
          .at_most(kMostVocabulary)
          .megatron("--vocab-size");
      s.field("vocab_multiple",
              &Config::vocab_multiple,
              "storage of the vocabulary is padded to a multiple of this × parallel.tensor")
          .at_least(1)
          .at_most(kMostFeatures)
          .megatron("--make-vocab-size-divisible-by");
      s.field("dropout", &Config::dropout, "default of every dropout in the model")
          .at_least(0)
          .below(1);
      s.field("init_std", &Config::init_std, "default standard deviation of initial weights")
          .at_least(0)
          .megatron("--init-method-std");
      s.field("tied_embeddings", &Config::tied_embeddings, "input and output share one table")
          .structural();
      s.field("pattern",
              &Config::pattern,
              "the kind of each block, by names of [model.blocks]: \"dense (dense moe)*3\"; empty: "
              "all are [model.block]")
          .structural()
          .megatron("--moe-layer-freq");
      s.slot("embedding", &Config::embedding, "the first layer");
      s.slot("block", &Config::block, "each block; [model.block] holds its slots");
      s.variants("blocks",
                 &Config::blocks,
                 "block",
                 "kinds of blocks for `pattern`: [model.block] with further keys");
      s.slot("head", &Config::head, "the last layer");
    }
  };

  Gpt(const Config& config, const ModelArguments& arguments)
      : config_(config),
        vocab_(config.vocab.value_or(arguments.tokenizer_vocab)),
        blocks_(blocks_of(config.pattern, config.blocks, config.block, config.layers)) {
    if (arguments.sequence_length > config.positions) {
      fail_config("model.positions = {} are fewer than batch.sequence_length = {}",
                  config.positions,
                  arguments.sequence_length);
    }
    if (vocab_ < 1) {
      fail_config("model.vocab = \"auto\" needs a tokenizer; give the number of entries");
    }
    if (vocab_ < arguments.tokenizer_vocab) {
      fail_config("model.vocab = {} is smaller than the tokenizer's vocabulary of {}",
                  vocab_,
                  arguments.tokenizer_vocab);
    }
  }

  std::vector<ModelLayer> do_layers() const override {
    std::vector<ModelLayer> plan{{"embedding", ModelLayer::embedding}};
    for (i64 i = 0; i < config_.layers; ++i) {
      plan.push_back({fmt::format("layers.{}", i), ModelLayer::block});
    }
    plan.push_back({"head", ModelLayer::head});
    return plan;
  }

  std::shared_ptr<Layer> do_build(int index, BuildContext& build) const override {
    const Given vocabulary{{"vocab", vocab_}, {"vocab_multiple", config_.vocab_multiple}};
    if (index == 0) return build.child("", config_.embedding, vocabulary);
    if (index == config_.layers + 1) return build.child("", config_.head, vocabulary);
    return build.child("", blocks_[static_cast<std::size_t>(index - 1)]);
  }

  i64 do_vocabulary() const override { return vocab_; }

 private:
  Config config_;
  i64 vocab_;
  std::vector<Component<Layer>> blocks_;
};

}  // namespace tessera

TESSERA_PLUGIN(gpt, "0.1.0", "GPT language model") {
  registrar.add<tessera::Model, tessera::Gpt>("gpt", "embedding, transformer blocks, head");
}
