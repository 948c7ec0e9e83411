#pragma once
#include <memory>
#include <string>

#include "token_table.hpp"

namespace tessera {

/// BERT's embedding (Devlin et al. 2019, §3.2): the sum of tables of tokens, positions and
/// segments, a norm where the model's order is "post", and dropout. Reads the slots "tokens",
/// "positions", "segments" and "row_ids" (i64 [n]), writes "hidden" [own rows, hidden].
class BertEmbedding final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, vocab = 0, vocab_multiple = 128, positions = 0, segments = 2;
    std::string order = "pre";
    double dropout = 0, init_std = 0.02;
    Component<Module> norm{"layernorm", {}};
    static void describe(Schema<Config>& s);
  };
  BertEmbedding(const Config& config, BuildContext& build);

 private:
  std::vector<Phase> do_phases() override;

  TensorRegion region_;
  Slot tokens_, positions_, segments_, row_ids_, hidden_;
  double dropout_;
  u64 key_;
  TokenTable table_;
  Parameter* positions_table_;
  Parameter* segments_table_;
  std::shared_ptr<Module> norm_;
};

}  // namespace tessera
