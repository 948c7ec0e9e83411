// What a converter says wrongly of a model is found before a folder is written.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
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
