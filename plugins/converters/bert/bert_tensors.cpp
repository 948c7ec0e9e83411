#include "bert_tensors.hpp"

#include <fmt/format.h>

#include "bert_config.hpp"

namespace tessera {

namespace {

class Tensors {
 public:
  explicit Tensors(bool optional = false) : optional_(optional) {}
  void one(const std::string& ours, const std::string& theirs, i64 row = 0) {
    all_.push_back({ours, theirs, false, {.row = row}, optional_});
  }
  /// Both parameters of a linear layer or a norm.
  void both(const std::string& ours, const std::string& theirs, i64 row = 0) {
    for (const char* part : {".weight", ".bias"}) one(ours + part, theirs + part, row);
  }
  void append_to(std::vector<ConvertedTensor>& all) const {
    all.insert(all.end(), all_.begin(), all_.end());
  }

 private:
  bool optional_;
  std::vector<ConvertedTensor> all_;
};

void add_layer(Tensors& all, i64 layer, i64 hidden) {
  const std::string ours = fmt::format("layers.{}.", layer);
  const std::string theirs = fmt::format("bert.encoder.layer.{}.", layer);
  i64 row = 0;
  for (const char* part : {"query", "key", "value"}) {
    all.both(ours + "attention.qkv", theirs + "attention.self." + part, row);
    row += hidden;
  }
  all.both(ours + "attention.proj", theirs + "attention.output.dense");
  all.both(ours + "attention_norm", theirs + "attention.output.LayerNorm");
  all.both(ours + "mlp.up", theirs + "intermediate.dense");
  all.both(ours + "mlp.down", theirs + "output.dense");
  all.both(ours + "mlp_norm", theirs + "output.LayerNorm");
}

void add_pooler(Tensors& all) { all.both("head.pooler", "bert.pooler.dense"); }

}  // namespace

std::vector<ConvertedTensor> bert_tensors(const Settings& theirs) {
  Claims claims("config.json", theirs);
  const BertClass of = bert_class(theirs);
  Tensors body;
  body.one("embedding.weight", "bert.embeddings.word_embeddings.weight");
  body.one("embedding.position", "bert.embeddings.position_embeddings.weight");
  body.one("embedding.segment", "bert.embeddings.token_type_embeddings.weight");
  body.both("embedding.norm", "bert.embeddings.LayerNorm");
  const i64 layers = bert_size(claims, "num_hidden_layers");
  for (i64 layer = 0; layer < layers; ++layer) {
    add_layer(body, layer, bert_size(claims, "hidden_size"));
  }
  if (of == BertClass::classification || of == BertClass::choice) {
    add_pooler(body);
    body.both("head.linear", "classifier");
  }
  if (of == BertClass::span) body.both("head.linear", "qa_outputs");
  std::vector<ConvertedTensor> all;
  body.append_to(all);
  if (!pre_trains(of)) return all;
  Tensors words(of == BertClass::model), order(of != BertClass::pre_training);
  words.both("head.dense", "cls.predictions.transform.dense");
  words.both("head.dense_norm", "cls.predictions.transform.LayerNorm");
  words.one("head.bias", "cls.predictions.bias");
  add_pooler(order);
  order.both("head.sentence_order", "cls.seq_relationship");
  words.append_to(all);
  order.append_to(all);
  return all;
}

std::vector<SharedTensor> bert_shared(const Settings& theirs) {
  std::vector<SharedTensor> all;
  if (pre_trains(bert_class(theirs))) {
    all.push_back({"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"});
    all.push_back({"cls.predictions.decoder.bias", "cls.predictions.bias"});
  }
  // TensorFlow's names, which the first files in PyTorch kept.
  const auto older = [](std::string name, std::string_view end, std::string_view other) {
    return name.replace(name.size() - end.size(), end.size(), other);
  };
  for (const ConvertedTensor& tensor : bert_tensors(theirs)) {
    const std::string& name = tensor.theirs;
    if (name.ends_with("LayerNorm.weight")) all.push_back({older(name, "weight", "gamma"), name});
    if (name.ends_with("LayerNorm.bias")) all.push_back({older(name, "bias", "beta"), name});
  }
  return all;
}

}  // namespace tessera
