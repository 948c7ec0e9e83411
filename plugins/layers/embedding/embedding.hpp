#pragma once
#include "token_table.hpp"

namespace tessera {

/// Token embedding, its vocabulary cut over the tensor group, plus learned positions (unless
/// attention turns by them) and dropout.
/// Reads the slots "tokens", "positions" and "row_ids" (i64 [n]), writes "hidden" [own rows,
/// hidden]. With `ahead` it looks up the tokens so many positions later, without positions, and
/// writes "ahead".
class Embedding final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, vocab = 0, vocab_multiple = 128, positions = 0, ahead = 0;
    bool learned_positions = true;
    double dropout = 0, init_std = 0.02;
    static void describe(Schema<Config>& s);
  };

  Embedding(const Config& config, BuildContext& build);

 private:
  std::vector<Phase> do_phases() override;

  TensorRegion region_;
  Slot tokens_, positions_, row_ids_, hidden_;
  double dropout_;
  u64 key_;
  TokenTable table_;
  Parameter* positions_table_ = nullptr;
};

}  // namespace tessera
