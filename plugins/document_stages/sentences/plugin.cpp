#include <algorithm>

#include "sentence_rules.hpp"
#include "tessera/document_stage.hpp"
#include "tessera/error.hpp"
#include "tessera/io/utf8.hpp"
#include "tessera/io/written.hpp"
#include "tessera/plugin.hpp"

namespace tessera {
namespace {

// Sentences as Megatron-LM's preprocessing with --split-sentences writes them: sequences of a
// document. The rules are those of sentence_rules.hpp.
class Sentences final : public DocumentStage {
 public:
  struct Config {
    std::vector<std::string> abbreviations;
    bool lines = false;
    static void describe(Schema<Config>& s) {
      s.field("abbreviations",
              &Config::abbreviations,
              "words after whose full stop no sentence ends, beside those of the stage (\"Dr.\", "
              "\"e.g.\"), whatever their capitals");
      s.field("lines",
              &Config::lines,
              "whether each line feed ends a sentence, and not only an empty line");
    }
  };
  Sentences(const Config& config, DocumentStageArguments&)
      : rules_(Abbreviations(checked(config.abbreviations)), config.lines) {}

 private:
  static const std::vector<std::string>& checked(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      const bool space = word.find_first_of(" \t\r\n") != word.npos;
      if (!space && !word.empty() && word != ".") continue;
      fail_config("abbreviations: {} is no word: one without spaces was expected, as \"approx.\"",
                  quote(word));
    }
    return words;
  }
  StageResult do_apply(const Document& document) const override {
    StageResult result;
    for (const std::string_view sentence : rules_.cut(document.text)) {
      result.sequences.emplace_back(sentence);
    }
    if (result.sequences.size() == 1 && result.sequences[0] == document.text) return {};
    return result;
  }
  bool do_makes_sequences() const override { return true; }

  SentenceRules rules_;
};

}  // namespace
}  // namespace tessera

TESSERA_PLUGIN(stage_sentences, "0.1.0", "Cuts documents into sentences") {
  registrar.add<tessera::DocumentStage, tessera::Sentences>(
      "sentences",
      "Cuts each document into sentences by rules and a list of abbreviations; each is a sequence "
      "of its document in the token file, as with Megatron-LM's --split-sentences. The last "
      "stage.");
}
