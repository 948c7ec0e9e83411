// What GPT-2 cannot say of a model here. tests/oracle/hugging_face.py has what it can.
#include "decoder_converter.hpp"

namespace tessera {
namespace gpt2_converter_test {

class Gpt2Converter : public DecoderConverter {
 protected:
  Gpt2Converter() : DecoderConverter("gpt2") {}

  Settings written(const std::string& key, const Value& value) const {
    Settings settings = resolved(R"({"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 24,
      "vocab_size": 300})");
    settings["model.block.norm.type"] = settings["model.head.norm.type"] = "layernorm";
    settings["model.block.mlp.type"] = "mlp";
    settings["model.block.dropout"] = 0.0;
    settings["model.block.attention.kv_heads"] = "auto";
    settings["model.embedding.positions"] = 24;
    settings[key] = value;
    return converter_->to_theirs(settings);
  }
};

TEST_F(Gpt2Converter, QueriesAndKeysGoAsTheyAre) {
  for (const char* slot : {"rotary", "q_norm", "k_norm"}) {
    const std::string key = fmt::format("model.block.attention.{}.type", slot);
    EXPECT_EQ(first_line([&] { written(key, "some"); }),
              fmt::format("{} = \"some\"; GPT-2 has \"none\"", key));
    for (const char* none : {"", "none"}) {
      EXPECT_EQ(written(key, none).at("n_head"), Value(4)) << key;
    }
  }
}

}  // namespace gpt2_converter_test
}  // namespace tessera
