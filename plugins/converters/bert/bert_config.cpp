#include "bert_config.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

struct ClassNames {
  BertClass of;
  const char *theirs, *head;
};

// Of several with one head, the first has all its parameters.
constexpr ClassNames kClasses[] = {
    {BertClass::pre_training, "BertForPreTraining", "bert_head"},
    {BertClass::masked_lm, "BertForMaskedLM", "bert_head"},
    {BertClass::model, "BertModel", "bert_head"},
    {BertClass::classification, "BertForSequenceClassification", "classification_head"},
    {BertClass::choice, "BertForMultipleChoice", "choice_head"},
    {BertClass::span, "BertForQuestionAnswering", "span_head"}};

const ClassNames& names_of(BertClass of) {
  return *std::ranges::find(kClasses, of, &ClassNames::of);
}

// The values of keys that config.json leaves out.
const Settings& defaults() {
  static const Settings kDefaults = {{"attention_probs_dropout_prob", 0.1},
                                     {"hidden_act", "gelu"},
                                     {"hidden_dropout_prob", 0.1},
                                     {"hidden_size", 768},
                                     {"initializer_range", 0.02},
                                     {"intermediate_size", 3072},
                                     {"layer_norm_eps", 1e-12},
                                     {"max_position_embeddings", 512},
                                     {"num_attention_heads", 12},
                                     {"num_hidden_layers", 12},
                                     {"type_vocab_size", 2},
                                     {"vocab_size", 30522}};
  return kDefaults;
}

Value get(Claims& theirs, std::string_view key) {
  return theirs.get(key, defaults().find(key)->second);
}

// One of RACE's questions has four; config.json does not say how many.
constexpr i64 kChoices = 4;

// How many classes; transformers counts the names of id2label, or has two.
i64 classes_of(Claims& theirs) {
  std::vector<std::string> names;
  for (const auto& [key, value] : theirs.all()) {
    if (key.starts_with("id2label.")) {
      names.push_back(fmt::format("{} = {}", key.substr(9), value.text()));
    }
  }
  const auto named = static_cast<i64>(names.size());
  const bool told = theirs.find("num_labels") != nullptr;
  const i64 classes = told ? theirs.integer("num_labels") : named > 0 ? named : 2;
  if (named > 0 && named != classes) {
    fail_config("{} has num_labels = {} and {} names in id2label", theirs.file(), classes, named);
  }
  if (classes < 2) {
    fail_config("{} has {} class: a model of numbers (regression) has no counterpart here",
                theirs.file(),
                classes);
  }
  const bool meant = std::ranges::any_of(
      names, [](const std::string& name) { return name.find("= \"LABEL_") == std::string::npos; });
  if (meant) {
    log_warning("{} names classes, and their names are not kept: {}",
                theirs.file(),
                written_plain(fmt::format("{}", fmt::join(names, ", "))));
  }
  return classes;
}

Value classifier_dropout(Claims& theirs) {
  return theirs.get("classifier_dropout", get(theirs, "hidden_dropout_prob"));
}

void claim_keys(Claims& theirs, BertClass of) {
  claim_common_keys(theirs, {names_of(of).theirs});
  theirs.only("is_decoder", false);
  theirs.only("add_cross_attention", false);
  theirs.only("hidden_act", defaults().at("hidden_act"));
  theirs.only("position_embedding_type", "absolute");
  // Names of files, and keys of what older programs made of the same model.
  theirs.harmless({"transformers.js_config*", "layer_norm_eps", "directionality", "pooler_*"});
  theirs.harmless({"mask_token_id", "cls_token_id", "unk_token_id"});
  if (pre_trains(of)) {
    theirs.only("tie_word_embeddings", true);
  } else {
    theirs.harmless({"tie_word_embeddings"});
  }
  if (of == BertClass::classification) theirs.only("problem_type", "single_label_classification");
  if (of != BertClass::classification && of != BertClass::choice) {
    theirs.harmless({"classifier_dropout"});
  }
}

Settings head_to_ours(Claims& theirs, BertClass of) {
  Settings ours = {{"model.head.type", names_of(of).head}};
  if (pre_trains(of)) ours["model.head.dense_norm.eps"] = get(theirs, "layer_norm_eps");
  if (of == BertClass::classification) ours["model.head.classes"] = classes_of(theirs);
  if (of == BertClass::choice) {
    ours["model.head.choices"] = kChoices;
    log_info("{} does not say how many choices a question has: model.head.choices = {}",
             theirs.file(),
             kChoices);
  }
  if (of == BertClass::classification || of == BertClass::choice) {
    ours["model.head.dropout"] = classifier_dropout(theirs);
  }
  return ours;
}

// Which parameters a checkpoint lacks decides which class the files are of.
BertClass class_of(const Settings& ours, const ModelKeys& keys) {
  const Value& head = keys.at("model.head.type");
  const auto* found = std::ranges::find_if(
      kClasses, [&](const ClassNames& names) { return Value(names.head) == head; });
  if (found == std::end(kClasses)) {
    fail_config("model.head.type = {}: BERT of Hugging Face has no such head", head.text());
  }
  if (found->of != BertClass::pre_training) return found->of;
  BertClass of = BertClass::pre_training;
  const std::string prefix = lacks_key("");
  for (auto at = ours.lower_bound(prefix); at != ours.end() && at->first.starts_with(prefix);
       ++at) {
    const std::string name = at->first.substr(prefix.size());
    const bool of_order =
        name.starts_with("head.pooler.") || name.starts_with("head.sentence_order.");
    if (!of_order) return BertClass::model;
    of = BertClass::masked_lm;
  }
  return of;
}

void require_bert(const ModelKeys& ours) {
  ours.only("model.type", "bert");
  if (ours.at("model.order") != Value("post")) {
    fail_config(
        "model.order = {}: norms before the sub-layers have no name in Hugging Face's "
        "BERT, whose norms come after the sums (\"post\")",
        ours.at("model.order").text());
  }
  ours.only({{"model.causal", false},
             {"model.embedding.type", "bert_embedding"},
             {"model.embedding.norm.type", "layernorm"},
             {"model.block.type", "transformer_block"},
             {"model.block.norm.type", "layernorm"},
             {"model.block.attention.type", "self_attention"},
             {"model.block.attention.causal", false},
             {"model.block.mlp.type", "mlp"},
             {"model.block.mlp.activation", "gelu_erf"}});
  ours.only_one_kind();
  for (const char* slot : {"rotary", "q_norm", "k_norm"}) {
    const std::string key = fmt::format("model.block.attention.{}.type", slot);
    const Value* type = ours.find(key);  // an empty type: nothing is written
    if (type != nullptr && *type != Value("")) ours.only(key, "none");
  }
  const Value heads = ours.at("model.block.attention.heads");
  const Value groups = ours.at("model.block.attention.kv_heads", heads);
  if (groups != heads) {
    fail_config("model.block.attention.kv_heads = {}: BERT has as many as heads", groups.text());
  }
}

}  // namespace

BertClass bert_class(const Settings& theirs) {
  const auto found = theirs.find("architectures");
  if (found == theirs.end()) return BertClass::model;
  const auto* names = std::get_if<Value::Array>(&found->second.data);
  for (const ClassNames& one : kClasses) {
    if (names != nullptr && names->size() == 1 && names->at(0) == Value(one.theirs)) return one.of;
  }
  std::vector<std::string> known;
  for (const ClassNames& one : kClasses) known.emplace_back(one.theirs);
  fail_config("config.json has architectures = {}; the converter reads one of {}",
              written_plain(found->second.text()),
              fmt::join(known, ", "));
}

i64 bert_size(Claims& theirs, std::string_view key) {
  return theirs.find(key) == nullptr ? std::get<i64>(defaults().find(key)->second.data)
                                     : theirs.integer(key);
}

bool pre_trains(BertClass of) { return Value(names_of(of).head) == Value(kClasses[0].head); }

Settings bert_to_ours(Claims& theirs) {
  const BertClass of = bert_class(theirs.all());
  claim_keys(theirs, of);
  const i64 positions = bert_size(theirs, "max_position_embeddings");
  // Each choice of a sample has positions of its own.
  const i64 length = of == BertClass::choice ? kChoices * positions : positions;
  const Value eps = get(theirs, "layer_norm_eps"), dropout = get(theirs, "hidden_dropout_prob");
  Settings ours = usual_run("bert", length);
  ours.merge(
      Settings{{"model.type", "bert"},
               {"model.order", "post"},
               {"model.layers", bert_size(theirs, "num_hidden_layers")},
               {"model.hidden", bert_size(theirs, "hidden_size")},
               {"model.heads", bert_size(theirs, "num_attention_heads")},
               {"model.positions", length},
               {"model.vocab", bert_size(theirs, "vocab_size")},
               {"model.dropout", dropout},
               {"model.init_std", get(theirs, "initializer_range")},
               {"model.embedding.positions", positions},
               {"model.embedding.segments", bert_size(theirs, "type_vocab_size")},
               {"model.embedding.norm.eps", eps},
               {"model.block.norm.eps", eps},
               {"model.block.attention.dropout", get(theirs, "attention_probs_dropout_prob")},
               {"model.block.mlp.activation", "gelu_erf"},
               {"model.block.mlp.ffn", bert_size(theirs, "intermediate_size")}});
  ours.merge(head_to_ours(theirs, of));
  return ours;
}

Settings bert_to_theirs(const Settings& all) {
  const ModelKeys ours(all, "BERT");
  require_bert(ours);
  const BertClass of = class_of(all, ours);
  Settings theirs = defaults();
  theirs["architectures"] = Value::Array{names_of(of).theirs};
  theirs["num_hidden_layers"] = ours.at("model.layers");
  theirs["hidden_size"] = ours.at("model.hidden");
  theirs["num_attention_heads"] = ours.at("model.block.attention.heads");
  theirs["intermediate_size"] = ours.at("model.block.mlp.ffn", 4 * ours.integer("model.hidden"));
  theirs["max_position_embeddings"] = ours.at("model.embedding.positions");
  theirs["type_vocab_size"] = ours.at("model.embedding.segments");
  theirs["vocab_size"] = ours.at("model.vocab");
  theirs["hidden_dropout_prob"] = ours.same({"model.embedding.dropout", "model.block.dropout"});
  theirs["attention_probs_dropout_prob"] = ours.at("model.block.attention.dropout");
  theirs["initializer_range"] = ours.at("model.init_std");
  std::vector<std::string> eps = {"model.embedding.norm.eps", "model.block.norm.eps"};
  if (pre_trains(of)) {
    ours.only("model.head.dense_norm.type", "layernorm");
    eps.emplace_back("model.head.dense_norm.eps");
  }
  theirs["layer_norm_eps"] = ours.same(eps);
  if (of == BertClass::classification || of == BertClass::choice) {
    theirs["classifier_dropout"] = ours.at("model.head.dropout");
  }
  if (of == BertClass::classification) {
    // As config.json of transformers has them: num_labels itself is not written there.
    for (i64 i = 0; i < ours.integer("model.head.classes"); ++i) {
      theirs[fmt::format("id2label.{}", i)] = fmt::format("LABEL_{}", i);
      theirs[fmt::format("label2id.LABEL_{}", i)] = i;
    }
  }
  return theirs;
}

}  // namespace tessera
