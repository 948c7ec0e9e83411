#include <utility>

#include "tessera/build.hpp"
#include "tessera/collectives.hpp"
#include "tessera/ops.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// Token embedding, its vocabulary cut over the tensor group, plus learned positions and dropout.
/// Reads the slots "tokens" and "positions" (i64 [n]), writes "hidden" [n, hidden], under sequence
/// parallelism [n / t, hidden].
class Embedding final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, vocab = 0, vocab_multiple = 128, positions = 0;
    double dropout = 0, init_std = 0.02;
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden").at_least(1);
      s.field("vocab", &Config::vocab, "entries of the vocabulary, without padding").given();
      s.field("vocab_multiple", &Config::vocab_multiple, "see model.vocab_multiple").given();
      s.field("positions", &Config::positions, "learned positions")
          .from("model.positions")
          .at_least(1);
      s.field("dropout", &Config::dropout, "of the sum of both embeddings")
          .from("model.dropout")
          .at_least(0)
          .below(1);
      s.field("init_std", &Config::init_std, "standard deviation of the initial tables")
          .from("model.init_std")
          .at_least(0);
    }
  };

  Embedding(const Config& config, BuildContext& build)
      : name_(build.scope()),
        tokens_(build.slot("tokens")),
        positions_(build.slot("positions")),
        rows_(build.slot("rows")),
        hidden_(build.slot("hidden")),
        dropout_(config.dropout),
        sequence_parallel_(build.batch().sequence_parallel),
        key_(build.random_site("dropout")) {
    tokens_table_ = &build.parameter({.name = "weight",
                                      .shape = {config.vocab, config.hidden},
                                      .split = {{0, Axis::tensor, {}, config.vocab_multiple}},
                                      .init = Init::gaussian(config.init_std),
                                      .tags = {"embedding"},
                                      .share = "embedding.weight"});
    positions_table_ = &build.parameter(
        {.name = "position",
         .shape = {config.positions, config.hidden},
         .init = Init::gaussian(config.init_std),
         .tags = {"embedding"},
         .partial = sequence_parallel_ ? std::vector{Axis::tensor} : std::vector<Axis>{}});
    first_ = build.mesh().coordinate(Axis::tensor) * tokens_table_->local[0];
  }

  std::vector<Phase> phases() override {
    return {{.scope = "embedding", .run = [this](Context& cx, Bundle& bundle) {
               ProcessGroup& group = cx.mesh->group(Axis::tensor);
               Tensor tokens = ops::embedding(cx, bundle[tokens_], *tokens_table_, first_);
               Tensor positions = bundle[positions_], rows = bundle[rows_];
               if (sequence_parallel_) {
                 tokens = collectives::reduce_scatter_rows(cx, tokens, group, name_);
                 positions = collectives::row_part(positions, group);
                 rows = collectives::row_part(rows, group);
               } else {
                 tokens = collectives::reduce(cx, std::move(tokens), group, name_);
               }
               positions = ops::embedding(cx, positions, *positions_table_);
               bundle[hidden_] =
                   ops::dropout(cx, ops::add(cx, tokens, positions), {}, rows, dropout_, key_);
             }}};
  }

 private:
  std::string name_;
  Slot tokens_, positions_, rows_, hidden_;
  double dropout_;
  bool sequence_parallel_;
  u64 key_;
  i64 first_ = 0;
  Parameter* tokens_table_;
  Parameter* positions_table_;
};

}  // namespace tessera

TESSERA_PLUGIN(embedding, "0.1.0", "Vocabulary-parallel embedding with learned positions") {
  registrar.add<tessera::Layer, tessera::Embedding>(
      "embedding", "token embedding cut over the tensor group, plus learned positions");
}
