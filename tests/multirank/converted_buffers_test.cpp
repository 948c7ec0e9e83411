// A converter names buffers as it names parameters: biases of a router go there and back.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "common/error_of.hpp"
#include "invariant_support.hpp"
#include "kernel/checkpoint/foreign_model.hpp"
#include "kernel/train/run/convert.hpp"
#include "kernel/train/run/converters.hpp"
#include "tessera/error.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace converted_buffers_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kRouter = "model.block.mlp.router.";

// Mixtrals whose routers have sigmoid scores and biases, as those of DeepSeek-V3.
class Biased : public Converter {
 public:
  enum Mistake { none, left_out, exchanged };
  explicit Biased(Mistake mistake)
      : mixtral_(converters(plugins(), "mixtral")[0].converter), mistake_(mistake) {}

  std::string_view do_model_type() const override { return "biased"; }
  Settings do_to_ours(Claims& theirs) const override {
    Settings ours = mixtral_->to_ours(theirs);
    ours[kRouter + "score"] = "sigmoid";
    ours[kRouter + "bias"] = true;
    return ours;
  }
  Settings do_to_theirs(const Settings& ours) const override {
    Settings softmax = ours;
    softmax[kRouter + "score"] = "softmax";
    return mixtral_->to_theirs(softmax);
  }
  std::vector<ConvertedTensor> do_tensors(const Settings& theirs) const override {
    std::vector<ConvertedTensor> all = mixtral_->tensors(theirs);
    for (i64 layer = 0; layer < std::get<i64>(theirs.at("num_hidden_layers").data); ++layer) {
      if (mistake_ == left_out) continue;
      all.push_back({fmt::format("layers.{}.mlp.router.bias", layer), their_bias(layer)});
      if (mistake_ != exchanged) continue;
      const std::string norm = fmt::format("layers.{}.mlp_norm.weight", layer);
      for (ConvertedTensor& one : all) {
        if (one.ours == norm) std::swap(one.theirs, all.back().theirs);
      }
    }
    return all;
  }
  static std::string their_bias(i64 layer) {
    return fmt::format("model.layers.{}.block_sparse_moe.e_score_correction_bias", layer);
  }

 private:
  std::shared_ptr<Converter> mixtral_;
  Mistake mistake_;
};

template <Biased::Mistake kMistake>
struct BiasedWith final : Biased {
  using Config = NoConfig;
  BiasedWith(const Config&, ConverterArguments&) : Biased(kMistake) {}
};

class ConvertedBuffers : public ::testing::Test {
 protected:
  ConvertedBuffers() {
    host_->add_builtin([](Registrar& registrar) {
      registrar.add<Converter, BiasedWith<Biased::none>>("biased", "knows biases");
      registrar.add<Converter, BiasedWith<Biased::left_out>>("left_out", "knows no biases");
      registrar.add<Converter, BiasedWith<Biased::exchanged>>("exchanged", "takes norms for them");
    });
  }
  std::string trained(const std::string& name, const Sets& more = {}) const {
    const std::string block = "model.block.";
    Sets sets = {"run.steps=2",
                 "run.out=" + folder_.at(name),
                 "lr.warmup_steps=0",
                 "model.embedding.learned_positions=false",
                 "model.tied_embeddings=false",
                 "model.head.norm.type=\"rmsnorm\"",
                 block + "norm.type=\"rmsnorm\"",
                 block + "attention.rotary.type=\"default\"",
                 block + "attention.qkv.bias=false",
                 block + "attention.proj.bias=false",
                 block + "mlp.type=\"moe\"",
                 block + "mlp.experts=4",
                 block + "mlp.ffn=8",
                 kRouter + "score=\"sigmoid\"",
                 kRouter + "bias_rate=0.3"};
    run_trainer({tiny_config() + "[observers.console]\ntype = \"none\"\n", with(sets, more)});
    return folder_.at(name + "/checkpoints/step-2");
  }
  void write(const std::string& from, const std::string& to, const std::string& by) const {
    export_model({.from = from, .out = folder_.at(to), .converter = by, .dtype = "bf16"},
                 kForeignFileBytes,
                 *host_);
  }
  void read(const std::string& from, const std::string& to, const std::string& by) const {
    import_model({.from = folder_.at(from), .out = folder_.at(to), .converter = by}, *host_);
  }
  template <class F>
  std::string refused(const std::string& to, F&& action) const {
    const std::string text = error_of<ConfigError>([&] { action(to); });
    EXPECT_FALSE(std::filesystem::exists(folder_.at(to)));
    return text;
  }
  TestFolder folder_;
  std::shared_ptr<PluginHost> host_ = load_plugins();
};

// Parameters are rounded as it is asked for; buffers keep their type and bits.
TEST_F(ConvertedBuffers, GoThereAndBack) {
  const std::string run = trained("run");
  const std::string bias = "layers.1.mlp.router.bias";
  const auto before = logical_tensors(run);
  ASSERT_NE(before.at(bias), std::string(before.at(bias).size(), '\0'));
  write(run, "theirs", "biased");
  const ForeignModel theirs(folder_.at("theirs"));
  EXPECT_THAT(theirs.entry(Biased::their_bias(1)).shape, ElementsAre(4));
  EXPECT_EQ(theirs.entry(Biased::their_bias(1)).dtype, "fp32");
  EXPECT_EQ(theirs.entry("model.layers.1.block_sparse_moe.gate.weight").dtype, "bf16");
  read("theirs", "ours", "biased");
  const auto after = logical_tensors(folder_.at("ours/checkpoints/step-0"));
  EXPECT_EQ(after.at(bias), before.at(bias));
  EXPECT_FALSE(after.contains("layers.1.mlp.router.counts"));
  // That the biases are fp32 does not hide that the parameters came as bf16.
  EXPECT_THAT(folder_.read("ours/model.toml"), HasSubstr("checkpoint.convert_dtype = \"bf16\""));
}

TEST_F(ConvertedBuffers, ThoseThatAreMissingSurplusOrOfAnotherShapeAreRefused) {
  const std::string run = trained("run"), without = trained("without", {kRouter + "bias_rate=0"});
  EXPECT_THAT(refused("no", [&](const std::string& to) { write(run, to, "left_out"); }),
              HasSubstr("has \"layers.0.mlp.router.bias\", which converter \"left_out\" does not"));
  EXPECT_THAT(refused("no", [&](const std::string& to) { write(without, to, "biased"); }),
              HasSubstr("has no parameter \"layers.0.mlp.router.bias\""));
  write(run, "theirs", "biased");
  const std::string surplus =
      refused("no", [&](const std::string& to) { read("theirs", to, "left_out"); });
  EXPECT_THAT(surplus,
              HasSubstr("\"" + Biased::their_bias(0) + "\" is not known to the converter"));
  EXPECT_THAT(surplus, HasSubstr("the converter has nothing for \"layers.0.mlp.router.bias\""));
  const std::string shape =
      refused("no", [&](const std::string& to) { read("theirs", to, "exchanged"); });
  EXPECT_THAT(shape,
              HasSubstr("\"model.layers.0.post_attention_layernorm.weight\" is [16], and "
                        "\"layers.0.mlp.router.bias\" has [4]"));
}

}  // namespace converted_buffers_test
}  // namespace tessera::testing
