#include "embedding.hpp"

#include "tessera/ops.hpp"

namespace tessera {

void Embedding::Config::describe(Schema<Config>& s) {
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

Embedding::Embedding(const Config& config, BuildContext& build)
    : region_(build.tensor_region()),
      tokens_(build.slot(later_input("tokens", config.ahead))),
      positions_(build.slot("positions")),
      row_ids_(build.slot("row_ids")),
      hidden_(build.slot(config.ahead == 0 ? "hidden" : "ahead")),
      dropout_(config.dropout),
      key_(build.random_site("dropout")),
      table_(config.vocab, config.vocab_multiple, config.hidden, config.init_std, build) {
  if (!config.learned_positions || config.ahead > 0) return;
  build.bound("positions", config.positions, "positions");
  positions_table_ =
      &whole_table("position", config.positions, config.hidden, config.init_std, build);
}

std::vector<Phase> Embedding::do_phases() {
  return {{.scope = "embedding", .incremental = true, .run = [this](Context& cx, Bundle& bundle) {
             Tensor sum = table_.look_up(cx, bundle[tokens_]);
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

}  // namespace tessera
