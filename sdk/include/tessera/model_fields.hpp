#pragma once
#include <string_view>

#include "tessera/schema.hpp"

/// Keys that layers have in common: where a layer's table does not write one, the model's holds.
/// Each describes the member of its name:
///
///     struct Config {
///       i64 hidden = 0;
///       double init_std = 0.02;
///       static void describe(Schema<Config>& s) {
///         model_fields::hidden(s);
///         model_fields::init_std(s);
///       }
///     };
namespace tessera::model_fields {

/// i64: features of a position.
template <class Config>
FieldBuilder hidden(Schema<Config>& s) {
  return s.field("hidden", &Config::hidden, "features")
      .from("model.hidden")
      .at_least(1)
      .at_most(kMostFeatures);
}

/// i64 vocab and vocab_multiple, of a table that is cut over the tensor group; given by the model.
template <class Config>
void vocabulary(Schema<Config>& s) {
  s.field("vocab", &Config::vocab, "entries of the vocabulary, without padding")
      .given()
      .at_least(1)
      .at_most(kMostVocabulary);
  s.field("vocab_multiple", &Config::vocab_multiple, "see model.vocab_multiple")
      .given()
      .at_least(1)
      .at_most(kMostFeatures);
}

/// i64: blocks of the model. Residual branches begin smaller the more there are.
template <class Config>
FieldBuilder layers(Schema<Config>& s) {
  return s.field("layers", &Config::layers, "scales the initial output weights")
      .from("model.layers")
      .at_least(1)
      .at_most(kMostLayers);
}

/// double: for Init::gaussian.
template <class Config>
FieldBuilder init_std(Schema<Config>& s,
                      std::string_view doc = "standard deviation of the initial weights") {
  return s.field("init_std", &Config::init_std, doc).from("model.init_std").at_least(0);
}

/// double: probability that an element is dropped; `doc` says of what.
template <class Config>
FieldBuilder dropout(Schema<Config>& s, std::string_view doc) {
  return s.field("dropout", &Config::dropout, doc).from("model.dropout").at_least(0).below(1);
}

/// std::string order: where norms are, "pre" or "post" (Shoeybi et al. 2019, figure 7). A model
/// that has both says so in its own key `order`; in others it is "pre".
template <class Config>
void norm_order(Schema<Config>& s) {
  s.field("order", &Config::order, "see model.order")
      .given()
      .from("model.order")
      .one_of({"pre", "post"});
}

}  // namespace tessera::model_fields
