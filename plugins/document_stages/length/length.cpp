#include <fmt/format.h>
#include <tessera/document_stage.hpp>
#include <tessera/plugin.hpp>

namespace tessera {
namespace {

class Length final : public DocumentStage {
 public:
  struct Config {
    i64 tokens = 128;
    static void describe(Schema<Config>& s) {
      s.field("tokens", &Config::tokens, "documents of fewer tokens are removed")
          .at_least(1)
          .at_most(1'000'000'000);
    }
  };
  Length(const Config& config, DocumentStageArguments&) : least_(config.tokens) {}

 private:
  StageResult do_apply(const Document& document) const override {
    if (document.tokens >= least_) return {};
    return {fmt::format("{} tokens, fewer than {}", document.tokens, least_), {}};
  }

  i64 least_;
};

}  // namespace
}  // namespace tessera

TESSERA_PLUGIN(stage_length, "0.1.0", "Removes short documents") {
  registrar.add<tessera::DocumentStage, tessera::Length>(
      "length", "Removes documents of fewer than 128 tokens.");
}
