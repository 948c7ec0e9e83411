#include "bert_embedding.hpp"

#include "tessera/ops.hpp"

namespace tessera {

void BertEmbedding::Config::describe(Schema<Config>& s) {
  model_fields::hidden(s);
  model_fields::vocabulary(s);
  s.field("positions", &Config::positions, "learned positions")
      .from("model.positions")
      .at_least(1)
      .at_most(kMostPositions);
  s.field("segments", &Config::segments, "kinds of segments that it tells apart")
      .at_least(1)
      .at_most(kMostFeatures)
      .also("type_vocab_size --num-tokentypes");
  model_fields::norm_order(s);
  model_fields::dropout(s, "of the sum of the embeddings").megatron("--hidden-dropout");
  model_fields::init_std(s, "standard deviation of the initial tables");
  s.slot("norm", &Config::norm, "normalisation of the sum, with model.order = \"post\" only")
      .megatron("--normalization");
}

BertEmbedding::BertEmbedding(const Config& config, BuildContext& build)
    : region_(build.tensor_region()),
      tokens_(build.slot("tokens")),
      positions_(build.slot("positions")),
      segments_(build.slot("segments")),
      row_ids_(build.slot("row_ids")),
      hidden_(build.slot("hidden")),
      dropout_(config.dropout),
      key_(build.random_site("dropout")),
      table_(config.vocab, config.vocab_multiple, config.hidden, config.init_std, build),
      positions_table_(
          &whole_table("position", config.positions, config.hidden, config.init_std, build)),
      segments_table_(
          &whole_table("segment", config.segments, config.hidden, config.init_std, build)) {
  build.bound("positions", config.positions, "positions");
  build.bound("segments", config.segments, "segments");
  if (config.order == "post") norm_ = build.child("norm", config.norm);
}

std::vector<Phase> BertEmbedding::do_phases() {
  return {{.scope = "embedding", .run = [this](Context& cx, Bundle& bundle) {
             require(bundle[segments_].defined(),
                     "a bert_embedding needs \"segments\" of its data, which has no such field");
             const auto rows_of = [&](Slot entries, Parameter& table) {
               return ops::embedding(cx, region_.own_rows(bundle[entries]), table);
             };
             Tensor sum = table_.look_up(cx, bundle[tokens_]);
             sum = ops::add(cx, sum, rows_of(positions_, *positions_table_));
             sum = ops::add(cx, sum, rows_of(segments_, *segments_table_));
             if (norm_ != nullptr) sum = (*norm_)(cx, sum);
             bundle[hidden_] =
                 ops::dropout(cx, sum, {}, region_.own_rows(bundle[row_ids_]), dropout_, key_);
           }}};
}

}  // namespace tessera
