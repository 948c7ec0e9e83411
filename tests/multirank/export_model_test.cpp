// What a converter says wrongly of a model is found before a folder is written.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "invariant_support.hpp"
#include "kernel/checkpoint/foreign_model.hpp"
#include "kernel/train/run/convert.hpp"
#include "kernel/train/run/converters.hpp"
#include "tessera/error.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace export_model_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// GPT-2's, with one key of config.json that is not the model's.
class WrongGpt2 : public Converter {
 public:
  WrongGpt2(std::string key, Value value)
      : gpt2_(converters(plugins(), "gpt2")[0].converter),
        key_(std::move(key)),
        value_(std::move(value)) {}

  std::string_view do_model_type() const override { return "wrong"; }
  Settings do_to_ours(Claims& theirs) const override { return gpt2_->to_ours(theirs); }
  Settings do_to_theirs(const Settings& ours) const override {
    Settings theirs = gpt2_->to_theirs(ours);
    theirs[key_] = value_;
    theirs.erase("n_ctx");  // a second name of n_positions
    return theirs;
  }
  std::vector<ConvertedTensor> do_tensors(const Settings& theirs) const override {
    return gpt2_->tensors(theirs);
  }

 private:
  std::shared_ptr<Converter> gpt2_;
  std::string key_;
  Value value_;
};

struct WrongPositions final : WrongGpt2 {
  using Config = NoConfig;
  WrongPositions(const Config&, ConverterArguments&) : WrongGpt2("n_positions", 24) {}
};
struct WrongActivation final : WrongGpt2 {
  using Config = NoConfig;
  WrongActivation(const Config&, ConverterArguments&) : WrongGpt2("activation_function", "relu") {}
};

// GPT-2's with queries, keys and values apart, and two halves of the inner features, as other
// programs have them: rows and columns of parameters here, transposed or not.
class TiledGpt2 final : public WrongGpt2 {
 public:
  using Config = NoConfig;
  TiledGpt2(const Config&, ConverterArguments&) : WrongGpt2("n_ctx", 0) {}  // left out anyway
  std::string_view do_model_type() const override { return "tiled"; }
  std::vector<ConvertedTensor> do_tensors(const Settings& theirs) const override {
    const i64 hidden = std::get<i64>(theirs.at("n_embd").data);
    std::vector<ConvertedTensor> all;
    for (const ConvertedTensor& whole : WrongGpt2::do_tensors(theirs)) {
      const auto cut = [&](const char* name, TileBegin at) {
        all.push_back({whole.ours, whole.theirs + name, whole.transposed, at});
      };
      if (whole.ours.find("attention.qkv.") != std::string::npos) {
        cut(".v", {.row = 2 * hidden});  // in any order
        cut(".q", {});
        cut(".k", {.row = hidden});
      } else if (whole.ours.ends_with("mlp.down.weight")) {
        cut(".0", {});
        cut(".1", {.column = 2 * hidden});
      } else {
        all.push_back(whole);
      }
    }
    return all;
  }
};

TEST(ExportModel, TilesGoThereAndBackWithEveryBit) {
  const auto host = load_plugins();
  host->add_builtin([](Registrar& registrar) {
    registrar.add<Converter, TiledGpt2>("tiled", "tells parts of tensors");
  });
  const TestFolder folder;
  run_trainer({tiny_config() + "[observers.console]\ntype = \"none\"\n",
               {"run.steps=1",
                "run.out=" + folder.at("run"),
                "lr.type=\"constant\"",
                "lr.warmup_steps=0"}});
  const std::string trained = folder.at("run/checkpoints/step-1");
  export_model({.from = trained, .out = folder.at("theirs"), .converter = "tiled"},
               kForeignFileBytes,
               *host);
  const ForeignModel theirs(folder.at("theirs"));
  const std::string layer = "transformer.h.1.";
  EXPECT_THAT(theirs.entry(layer + "attn.c_attn.weight.k").shape, ElementsAre(16, 16));
  EXPECT_THAT(theirs.entry(layer + "attn.c_attn.bias.k").shape, ElementsAre(16));
  EXPECT_THAT(theirs.entry(layer + "mlp.c_proj.weight.1").shape, ElementsAre(32, 16));
  import_model({.from = folder.at("theirs"), .out = folder.at("ours"), .converter = "tiled"},
               *host);
  std::map<std::string, std::string> before = logical_tensors(trained);
  std::erase_if(before,
                [](const auto& entry) { return entry.first.find('/') != entry.first.npos; });
  EXPECT_EQ(logical_tensors(folder.at("ours/checkpoints/step-0")), before);
}

TEST(ExportModel, WhatTheConfigurationDoesNotDescribeIsNotWritten) {
  const auto host = load_plugins();
  host->add_builtin([](Registrar& registrar) {
    registrar.add<Converter, WrongPositions>("wrong_positions", "tells another table");
    registrar.add<Converter, WrongActivation>("wrong_activation", "tells what none reads");
  });
  const TestFolder folder;
  run_trainer({tiny_config() + "[observers.console]\ntype = \"none\"\n",
               {"run.steps=1",
                "run.out=" + folder.at("run"),
                "lr.type=\"constant\"",
                "lr.warmup_steps=0"}});
  const auto error_of = [&](const std::string& converter) -> std::string {
    const ConversionArguments arguments{.from = folder.at("run/checkpoints/step-1"),
                                        .out = folder.at(converter),
                                        .converter = converter};
    try {
      export_model(arguments, kForeignFileBytes, *host);
    } catch (const ConfigError& error) {
      EXPECT_FALSE(std::filesystem::exists(arguments.out));
      return error.what();
    }
    EXPECT_TRUE(std::filesystem::exists(arguments.out));
    return "";
  };
  EXPECT_EQ(error_of("gpt2"), "");
  EXPECT_EQ(error_of("wrong_positions"),
            "the config.json that converter \"wrong_positions\" would write describes another "
            "model: \"embedding.position\" is [8, 16] and not [24, 16]");
  EXPECT_THAT(error_of("wrong_activation"),
              HasSubstr("converter \"wrong_activation\" cannot read what it would write: "));
}

}  // namespace export_model_test
}  // namespace tessera::testing
