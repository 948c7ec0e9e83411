#include "block_kinds.hpp"
#include "tessera/model.hpp"
#include "tessera/plugin.hpp"
#include "training_only.hpp"

namespace tessera {

/// GPT: embedding, a row of blocks of one kind or several, head. Where it predicts tokens further
/// ahead, each depth follows the head: what joins the embedding of a later token with the hidden
/// values of the depth before, a block as the last one, and a head of its own that uses the same
/// table (DeepSeek-AI 2024, §2.2).
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
    Component<Layer> predict_ahead{"", {}};
    Auto<i64> depths;
    Auto<double> ahead_weight;
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
      s.slot("predict_ahead",
             &Config::predict_ahead,
             "trains the model to predict tokens after the next one too; \"none\": it does not");
      s.field("depths", &Config::depths, "set in [model.predict_ahead]")
          .given()
          .from("model.predict_ahead.layers")
          .at_least(1)
          .at_most(kMostLayers);
      s.field("ahead_weight", &Config::ahead_weight, "set in [model.predict_ahead]")
          .given()
          .from("model.predict_ahead.weight")
          .above(0);
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
    if (!config.predict_ahead.type.empty()) check_ahead(arguments);
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
    for (i64 k = 0; k < depths(); ++k) {
      plan.push_back({fmt::format("ahead.{}", k), ModelLayer::ahead});
      plan.push_back({fmt::format("ahead.{}.head", k), ModelLayer::head});
    }
    return plan;
  }

  std::shared_ptr<Layer> do_build(int index, BuildContext& build) const override {
    if (index == 0) return build.child("", config_.embedding, given({}));
    if (index <= config_.layers) {
      return build.child("", blocks_[static_cast<std::size_t>(index - 1)]);
    }
    const i64 after = index - config_.layers - 1, depth = (after + 1) / 2;
    if (after % 2 == 0) return build_head(depth, build);
    // One by one: their parameters are declared in this order.
    const auto later = build.child("embedding", config_.embedding, given({{"ahead", depth}}));
    const auto joined = build.child("", config_.predict_ahead);
    const auto block = build.child("block", blocks_.back());
    return std::make_shared<TrainingOnly>(
        std::vector<std::shared_ptr<Layer>>{later, joined, block});
  }

  i64 do_vocabulary() const override { return vocab_; }

 private:
  void check_ahead(const ModelArguments& arguments) const {
    const auto missing = [&](std::string_view key) {
      fail_config(
          "model.predict_ahead.type = \"{}\" has no key \"{}\"", config_.predict_ahead.type, key);
    };
    if (!config_.depths) missing("layers");
    if (!config_.ahead_weight) missing("weight");
    if (*config_.depths < arguments.sequence_length) return;
    fail_config(
        "model.predict_ahead.layers = {}: batch.sequence_length = {} leaves depth {} without a "
        "target; at most {} layers fit",
        *config_.depths,
        arguments.sequence_length,
        *config_.depths,
        arguments.sequence_length - 1);
  }

  i64 depths() const { return config_.predict_ahead.type.empty() ? 0 : *config_.depths; }

  Given given(Given more) const {
    more.emplace_back("vocab", vocab_);
    more.emplace_back("vocab_multiple", config_.vocab_multiple);
    return more;
  }

  // The head of a depth; 0: the model's own.
  std::shared_ptr<Layer> build_head(i64 depth, BuildContext& build) const {
    Given more;
    if (depth < depths()) more.emplace_back("keep_hidden", true);
    if (depth == 0) return build.child("", config_.head, given(std::move(more)));
    more.emplace_back("ahead", depth);
    more.emplace_back("factor", *config_.ahead_weight / static_cast<double>(depths()));
    more.emplace_back("shared_weight", "head.weight");
    const auto head = build.child("", config_.head, given(std::move(more)));
    return std::make_shared<TrainingOnly>(std::vector<std::shared_ptr<Layer>>{head});
  }

  Config config_;
  i64 vocab_;
  std::vector<Component<Layer>> blocks_;
};

}  // namespace tessera

TESSERA_PLUGIN(gpt, "0.1.0", "GPT language model") {
  registrar.add<tessera::Model, tessera::Gpt>("gpt", "embedding, transformer blocks, head");
}
