// Removes documents that are tables, logs or listings of numbers: few of their characters are
// letters.
#include <fmt/format.h>

#include <cctype>
#include <tessera/document_stage.hpp>
#include <tessera/plugin.hpp>

namespace {

using namespace tessera;

class Lettered final : public DocumentStage {
 public:
  struct Config {
    double share = 0.6;
    static void describe(Schema<Config>& s) {
      s.field("share",
              &Config::share,
              "documents go in which fewer of the characters, without white space, are letters")
          .at_least(0)
          .at_most(1);
    }
  };
  Lettered(const Config& config, DocumentStageArguments&) : share_(config.share) {}

 private:
  // What is not ASCII counts as a letter: of UTF-8 the first byte of each character.
  StageResult do_apply(const Document& document) const override {
    i64 letters = 0, characters = 0;
    for (const char c : document.text) {
      const auto byte = static_cast<unsigned char>(c);
      if (std::isspace(byte) != 0 || (byte & 0xC0) == 0x80) continue;
      ++characters;
      if (byte >= 0x80 || std::isalpha(byte) != 0) ++letters;
    }
    if (static_cast<double>(letters) >= share_ * static_cast<double>(characters)) return {};
    StageResult result;
    result.removed = fmt::format("{} letters of {} characters", letters, characters);
    return result;
  }

  double share_;
};

}  // namespace

TESSERA_PLUGIN(lettered, "0.1.0", "Removes documents of few letters") {
  registrar.add<DocumentStage, Lettered>("lettered", "documents of few letters go");
}
