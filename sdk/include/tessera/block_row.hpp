#pragma once
#include <map>
#include <string>
#include <vector>

#include "tessera/model.hpp"

namespace tessera {

/// Tables [model.blocks.NAME]: components by name.
using BlockKinds = std::map<std::string, Component<Layer>>;

/// Keys of a model that is an embedding, a row of blocks and a head:
///
///     struct Config : BlockRowKeys {
///       static void describe(Schema<Config>& s) { BlockRowKeys::describe(s); }
///     };
struct BlockRowKeys {
  i64 layers = 0, hidden = 0, heads = 0, positions = 0;
  Auto<i64> vocab;
  i64 vocab_multiple = 128;
  double dropout = 0.1, init_std = 0.02;
  std::string pattern;
  Component<Layer> embedding{"embedding", {}};
  Component<Layer> block{"transformer_block", {}};
  BlockKinds blocks;
  Component<Layer> head{"lm_head", {}};
  template <class Config>
  static void describe(Schema<Config>& s);
};

/// Such a model: checks its keys, and knows which component each of its blocks is. A value.
class TESSERA_API BlockRow {
 public:
  /// Throws ConfigError that names a key of [model] or one of its tables.
  BlockRow(const BlockRowKeys& keys, const ModelArguments& arguments);

  const BlockRowKeys& keys() const { return keys_; }
  i64 vocabulary() const { return vocab_; }
  /// "embedding", "layers.0" …, "head".
  std::vector<ModelLayer> layers() const;
  /// The component of block `index`.
  const Component<Layer>& block(i64 index) const {
    return blocks_.at(static_cast<std::size_t>(index));
  }
  /// What an embedding and a head are given: `more`, and the vocabulary.
  Given given(Given more) const;

 private:
  BlockRowKeys keys_;
  i64 vocab_;
  std::vector<Component<Layer>> blocks_;
};

template <class Config>
void BlockRowKeys::describe(Schema<Config>& s) {
  s.field("layers", &BlockRowKeys::layers, "transformer blocks")
      .required()
      .at_least(1)
      .at_most(kMostLayers)
      .megatron("--num-layers")
      .also("n_layer num_hidden_layers");
  s.field("hidden", &BlockRowKeys::hidden, "features of a position")
      .required()
      .at_least(1)
      .at_most(kMostFeatures)
      .megatron("--hidden-size")
      .also("d_model hidden_dim n_embd");
  s.field("heads", &BlockRowKeys::heads, "attention heads")
      .required()
      .at_least(1)
      .at_most(kMostFeatures)
      .structural()
      .megatron("--num-attention-heads")
      .also("n_head");
  s.field("positions", &BlockRowKeys::positions, "positions that the model tells apart")
      .from("batch.sequence_length")
      .at_least(1)
      .at_most(kMostPositions)
      .megatron("--max-position-embeddings");
  s.field("vocab", &BlockRowKeys::vocab, "entries of the vocabulary; \"auto\": the tokenizer's")
      .at_least(1)
      .at_most(kMostVocabulary)
      .megatron("--vocab-size");
  s.field("vocab_multiple",
          &BlockRowKeys::vocab_multiple,
          "storage of the vocabulary is padded to a multiple of this × parallel.tensor")
      .at_least(1)
      .at_most(kMostFeatures)
      .megatron("--make-vocab-size-divisible-by");
  s.field("dropout", &BlockRowKeys::dropout, "default of every dropout in the model")
      .at_least(0)
      .below(1);
  s.field("init_std", &BlockRowKeys::init_std, "default standard deviation of initial weights")
      .at_least(0)
      .megatron("--init-method-std");
  s.field("pattern",
          &BlockRowKeys::pattern,
          "the kind of each block, by names of [model.blocks]: \"dense (dense moe)*3\"; empty: "
          "all are [model.block]")
      .structural()
      .megatron("--moe-layer-freq");
  s.slot("embedding", &BlockRowKeys::embedding, "the first layer");
  s.slot("block", &BlockRowKeys::block, "each block; [model.block] holds its slots");
  s.variants("blocks",
             static_cast<BlockKinds Config::*>(&BlockRowKeys::blocks),
             "block",
             "kinds of blocks for `pattern`: [model.block] with further keys");
  s.slot("head", &BlockRowKeys::head, "the last layer");
}

}  // namespace tessera
