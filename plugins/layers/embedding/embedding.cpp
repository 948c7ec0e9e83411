#include "tessera/build.hpp"
#include "tessera/ops.hpp"
#include "tessera/plugin.hpp"

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
    static void describe(Schema<Config>& s) {
      model_fields::hidden(s);
      model_fields::vocabulary(s);
      s.field("positions", &Config::positions, "learned positions")
          .from("model.positions")
          .at_least(1)
          .at_most(kMostPositions);
      s.field("learned_positions",
              &Config::learned_positions,
              "adds a table of positions; without one, attention has to know them");
      s.field("ahead", &Config::ahead, "how many positions later the tokens are")
          .given()
          .at_least(0)
          .at_most(kMostPositions);
      model_fields::dropout(s, "of the sum of both embeddings").megatron("--hidden-dropout");
      model_fields::init_std(s, "standard deviation of the initial tables");
    }
  };

  Embedding(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        tokens_(build.slot(later_input("tokens", config.ahead))),
        positions_(build.slot("positions")),
        row_ids_(build.slot("row_ids")),
        hidden_(build.slot(config.ahead == 0 ? "hidden" : "ahead")),
        dropout_(config.dropout),
        key_(build.random_site("dropout")) {
    tokens_table_ = &build.parameter({.name = "weight",
                                      .shape = {config.vocab, config.hidden},
                                      .split = {{0, Axis::tensor, {}, config.vocab_multiple}},
                                      .init = Init::gaussian(config.init_std),
                                      .tags = {"embedding"},
                                      .share = "embedding.weight"});
    first_ = region_.index() * tokens_table_->local[0];
    if (!config.learned_positions || config.ahead > 0) return;
    positions_table_ = &build.parameter({.name = "position",
                                         .shape = {config.positions, config.hidden},
                                         .init = Init::gaussian(config.init_std),
                                         .tags = {"embedding"},
                                         .placement = region_.per_row()});
  }

  std::vector<Phase> do_phases() override {
    return {{.scope = "embedding", .incremental = true, .run = [this](Context& cx, Bundle& bundle) {
               // A rank finds the tokens of its part of the vocabulary, and zeros for the others.
               Tensor sum =
                   region_.leave(cx, ops::embedding(cx, bundle[tokens_], *tokens_table_, first_));
               if (positions_table_ != nullptr) {
                 sum = ops::add(
                     cx,
                     sum,
                     ops::embedding(cx, region_.own_rows(bundle[positions_]), *positions_table_));
               }
               bundle[hidden_] =
                   ops::dropout(cx, sum, {}, region_.own_rows(bundle[row_ids_]), dropout_, key_);
             }}};
  }

 private:
  TensorRegion region_;
  Slot tokens_, positions_, row_ids_, hidden_;
  double dropout_;
  u64 key_;
  i64 first_ = 0;
  Parameter* tokens_table_;
  Parameter* positions_table_ = nullptr;
};

}  // namespace tessera

TESSERA_PLUGIN(embedding, "0.1.0", "Vocabulary-parallel embedding with learned positions") {
  registrar.add<tessera::Layer, tessera::Embedding>(
      "embedding", "token embedding cut over the tensor group, plus learned positions");
}
