// What a config.json of BERT means here, and what is refused. tests/oracle/hugging_face_bert.py
// compares values.
#include "decoder_converter.hpp"

namespace tessera {
namespace bert_converter_test {

class BertConverter : public DecoderConverter {
 protected:
  BertConverter() : DecoderConverter("bert") {}

  // The resolved configuration of a config.json, and what `more` says instead.
  Settings whole(const std::string& json, const Settings& more = {}) const {
    Settings settings = ours(json);
    settings.merge(Settings{{"model.causal", false},
                            {"model.embedding.type", "bert_embedding"},
                            {"model.embedding.norm.type", "layernorm"},
                            {"model.embedding.dropout", settings.at("model.dropout")},
                            {"model.block.type", "transformer_block"},
                            {"model.block.dropout", settings.at("model.dropout")},
                            {"model.block.norm.type", "layernorm"},
                            {"model.block.attention.type", "self_attention"},
                            {"model.block.attention.causal", false},
                            {"model.block.attention.heads", settings.at("model.heads")},
                            {"model.block.attention.kv_heads", "auto"},
                            {"model.block.mlp.type", "mlp"},
                            {"model.head.dense_norm.type", "layernorm"}});
    for (const auto& [key, value] : more) settings[key] = value;
    return settings;
  }
  Settings theirs(const std::string& json, const Settings& more = {}) const {
    return converter_->to_theirs(whole(json, more));
  }
  std::string refused_back(const std::string& key, const Value& value) const {
    return first_line([&] { theirs("{}", {{key, value}}); });
  }
  static std::string of_class(const std::string& name, const std::string& more = "") {
    return fmt::format(R"({{"architectures": ["{}"]{}}})", name, more);
  }
  // Which of ours are optional.
  std::vector<std::string> optional(const std::string& name) const {
    std::vector<std::string> found;
    for (const ConvertedTensor& tensor :
         converter_->tensors({{"architectures", Value::Array{name}}})) {
      if (tensor.optional) found.push_back(tensor.ours);
    }
    return found;
  }
};

// What is absent is what transformers 5 takes.
TEST_F(BertConverter, WhatIsAbsentIsTransformers) {
  EXPECT_EQ(ours("{}").at("batch.sequence_length"), Value(512));
  EXPECT_EQ(model("{}"),
            (Settings{{"model.type", "bert"},
                      {"model.order", "post"},
                      {"model.layers", 12},
                      {"model.hidden", 768},
                      {"model.heads", 12},
                      {"model.positions", 512},
                      {"model.vocab", 30522},
                      {"model.dropout", 0.1},
                      {"model.init_std", 0.02},
                      {"model.embedding.positions", 512},
                      {"model.embedding.segments", 2},
                      {"model.embedding.norm.eps", 1e-12},
                      {"model.block.norm.eps", 1e-12},
                      {"model.block.attention.dropout", 0.1},
                      {"model.block.mlp.activation", "gelu_erf"},
                      {"model.block.mlp.ffn", 3072},
                      {"model.head.type", "bert_head"},
                      {"model.head.dense_norm.eps", 1e-12}}));
}

TEST_F(BertConverter, EachKeyGoesBack) {
  const std::string json = R"({"architectures": ["BertForPreTraining"], "vocab_size": 300,
    "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 80,
    "hidden_act": "gelu", "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3,
    "max_position_embeddings": 24, "type_vocab_size": 3, "initializer_range": 0.03,
    "layer_norm_eps": 0.001})";
  EXPECT_EQ(theirs(json), parse_settings(json, ""));
}

TEST_F(BertConverter, ClassesHaveHeads) {
  const Settings classes = model(of_class("BertForSequenceClassification",
                                          R"(, "id2label": {"0": "no", "1": "may", "2": "yes"},
                                             "classifier_dropout": 0.25)"));
  EXPECT_EQ(classes.at("model.head.type"), Value("classification_head"));
  EXPECT_EQ(classes.at("model.head.classes"), Value(3));
  EXPECT_EQ(classes.at("model.head.dropout"), Value(0.25));
  EXPECT_EQ(model(of_class("BertForSequenceClassification")).at("model.head.classes"), Value(2));
  // Each of four choices has all positions.
  const Settings choice = ours(of_class("BertForMultipleChoice"));
  EXPECT_EQ(choice.at("model.head.type"), Value("choice_head"));
  EXPECT_EQ(choice.at("model.head.dropout"), Value(0.1));
  EXPECT_EQ(choice.at("batch.sequence_length"), Value(2048));
  EXPECT_EQ(choice.at("model.embedding.positions"), Value(512));
  EXPECT_EQ(model(of_class("BertForQuestionAnswering")).at("model.head.type"), Value("span_head"));
  for (const char* name : {"BertForSequenceClassification",
                           "BertForMultipleChoice",
                           "BertForQuestionAnswering",
                           "BertForPreTraining"}) {
    EXPECT_EQ(theirs(of_class(name)).at("architectures"), Value(Value::Array{name})) << name;
  }
  EXPECT_EQ(theirs(of_class("BertForSequenceClassification"), {{"model.head.classes", 3}})
                .at("id2label.2"),
            Value("LABEL_2"));
}

// What a class lacks is optional; what a checkpoint lacks decides its class.
TEST_F(BertConverter, FilesMayLackTheHead) {
  EXPECT_TRUE(optional("BertForPreTraining").empty());
  EXPECT_TRUE(optional("BertForQuestionAnswering").empty());
  const std::vector<std::string> order = {"head.pooler.weight",
                                          "head.pooler.bias",
                                          "head.sentence_order.weight",
                                          "head.sentence_order.bias"};
  EXPECT_EQ(optional("BertForMaskedLM"), order);
  std::vector<std::string> all = {"head.dense.weight",
                                  "head.dense.bias",
                                  "head.dense_norm.weight",
                                  "head.dense_norm.bias",
                                  "head.bias"};
  all.insert(all.end(), order.begin(), order.end());
  EXPECT_EQ(optional("BertModel"), all);
  const auto class_without = [&](const std::string& name) {
    return theirs("{}", {{lacks_key(name), true}}).at("architectures").text();
  };
  EXPECT_EQ(class_without("head.pooler.bias"), "[\"BertForMaskedLM\"]");
  EXPECT_EQ(class_without("head.bias"), "[\"BertModel\"]");
}

TEST_F(BertConverter, QueriesKeysAndValuesAreRowsOfOneParameter) {
  const std::string all = tensors(parse_settings(
      R"({"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 1})", ""));
  for (const char* line :
       {"layers.0.attention.qkv.weight 0 bert.encoder.layer.0.attention.self.query.weight\n",
        "layers.0.attention.qkv.bias 12 bert.encoder.layer.0.attention.self.key.bias\n",
        "layers.0.attention.qkv.weight 24 bert.encoder.layer.0.attention.self.value.weight\n",
        "layers.0.attention_norm.bias 0 bert.encoder.layer.0.attention.output.LayerNorm.bias\n",
        "layers.0.mlp_norm.weight 0 bert.encoder.layer.0.output.LayerNorm.weight\n",
        "embedding.segment 0 bert.embeddings.token_type_embeddings.weight\n",
        "head.bias 0 cls.predictions.bias\n"}) {
    EXPECT_THAT(all, ::testing::HasSubstr(line));
  }
  EXPECT_TRUE(converter_->redundant("embeddings.position_ids", {}));
  EXPECT_FALSE(converter_->redundant("embeddings.token_type_ids", {}));
}

TEST_F(BertConverter, OtherModelsAreRefused) {
  EXPECT_EQ(refused(R"({"hidden_act": "relu"})"),
            "config.json has hidden_act = \"relu\"; only \"gelu\" is supported");
  EXPECT_EQ(refused(R"({"position_embedding_type": "relative_key"})"),
            "config.json has position_embedding_type = \"relative_key\"; only \"absolute\" is "
            "supported");
  for (const std::string key : {"is_decoder", "add_cross_attention"}) {
    EXPECT_EQ(refused(fmt::format(R"({{"{}": true}})", key)),
              fmt::format("config.json has {} = true; only false is supported", key));
  }
  EXPECT_THAT(refused(R"({"tie_word_embeddings": false})"),
              ::testing::HasSubstr("tie_word_embeddings = false"));
  EXPECT_EQ(refused(of_class("BertForTokenClassification")),
            "config.json has architectures = [\"BertForTokenClassification\"]; the converter reads "
            "one of BertForPreTraining, BertForMaskedLM, BertModel, BertForSequenceClassification, "
            "BertForMultipleChoice, BertForQuestionAnswering");
  const std::string classes = "BertForSequenceClassification";
  EXPECT_EQ(refused(of_class(classes, R"(, "num_labels": 1)")),
            "config.json has 1 class: a model of numbers (regression) has no counterpart here");
  EXPECT_EQ(refused(of_class(classes, R"(, "num_labels": 3, "id2label": {"0": "a"})")),
            "config.json has num_labels = 3 and 1 names in id2label");
  EXPECT_THAT(refused(of_class(classes, R"(, "problem_type": "regression")")),
              ::testing::HasSubstr("problem_type = \"regression\""));
}

TEST_F(BertConverter, WhatBertCannotSayIsRefused) {
  EXPECT_EQ(refused_back("model.order", "pre"),
            "model.order = \"pre\": norms before the sub-layers have no name in Hugging Face's "
            "BERT, whose norms come after the sums (\"post\")");
  EXPECT_EQ(refused_back("model.causal", true), "model.causal = true; BERT has false");
  EXPECT_EQ(refused_back("model.head.type", "lm_head"),
            "model.head.type = \"lm_head\": BERT of Hugging Face has no such head");
  EXPECT_EQ(refused_back("model.block.mlp.activation", "gelu"),
            "model.block.mlp.activation = \"gelu\"; BERT has \"gelu_erf\"");
  EXPECT_EQ(refused_back("model.block.attention.kv_heads", 2),
            "model.block.attention.kv_heads = 2: BERT has as many as heads");
  EXPECT_EQ(refused_back("model.head.dense_norm.eps", 1e-5),
            "model.embedding.norm.eps = 1e-12 and model.head.dense_norm.eps = 1e-05: BERT has one "
            "value for both");
}

}  // namespace bert_converter_test
}  // namespace tessera
