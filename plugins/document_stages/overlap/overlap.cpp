#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "tessera/base/hash.hpp"
#include "tessera/bounds.hpp"
#include "tessera/document_stage.hpp"
#include "tessera/error.hpp"
#include "tessera/io/utf8.hpp"
#include "tessera/io/words.hpp"
#include "tessera/plugin.hpp"

namespace tessera {
namespace {

// The place `characters` before or after a place of the text.
std::size_t back(std::string_view text, std::size_t at, i64 characters) {
  while (characters-- > 0 && at > 0) {
    do --at;
    while (at > 0 && inside_character(text[at]));
  }
  return at;
}
std::size_t ahead(std::string_view text, std::size_t at, i64 characters) {
  while (characters-- > 0 && at < text.size()) {
    do ++at;
    while (at < text.size() && inside_character(text[at]));
  }
  return at;
}

// What texts for evaluation and documents have in common is cut out of the documents, as for GPT-3
// (Brown et al. 2020, appendix C) and Megatron-LM (Shoeybi et al. 2019, tools/openwebtext).
class Overlap final : public DocumentStage {
 public:
  struct Config {
    std::vector<std::string> files;
    i64 words = 13, margin = 200, least = 200;
    static void describe(Schema<Config>& s) {
      s.field("files",
              &Config::files,
              "what the model will be evaluated with: files as a build's input, with * and ?")
          .is_path()
          .required();
      s.field("words", &Config::words, "so many words in a row that a file has too are a match")
          .at_least(2)
          .at_most(1000);
      s.field("margin", &Config::margin, "characters that go on each side of a match")
          .at_least(0)
          .at_most(1'000'000);
      s.field("least",
              &Config::least,
              "what is left between matches goes, if it has fewer "
              "characters")
          .at_least(1)
          .at_most(1'000'000);
    }
  };

  Overlap(const Config& config, DocumentStageArguments& arguments)
      : words_(config.words), margin_(config.margin), least_(config.least) {
    for (const std::string& file : config.files) {
      arguments.read_documents(file, [&](std::string_view text) {
        const std::vector<TextWord> words = words_of(text);
        for (i64 i = 0; i + words_ <= static_cast<i64>(words.size()); ++i) {
          runs_.insert(hash_words(words, i, words_));
        }
      });
    }
    if (runs_.empty()) fail_config("files: no text in them has {} words", words_);
  }

 private:
  StageResult do_apply(const Document& document) const override {
    const std::string_view text = document.text;
    const std::vector<TextWord> words = words_of(text);
    std::vector<std::string> pieces;
    std::size_t free = 0;  // the text before it is done with
    bool matched = false;
    for (i64 i = 0; i + words_ <= static_cast<i64>(words.size()); ++i) {
      if (!runs_.contains(hash_words(words, i, words_))) continue;
      const auto begin = static_cast<std::size_t>(words[static_cast<std::size_t>(i)].begin);
      const auto end =
          static_cast<std::size_t>(words[static_cast<std::size_t>(i + words_ - 1)].end);
      keep(text, free, back(text, begin, margin_), pieces);
      free = std::max(free, ahead(text, end, margin_));
      matched = true;
    }
    if (!matched) return {};
    keep(text, free, text.size(), pieces);
    if (pieces.empty()) return {fmt::format("{} words in a row of an evaluation", words_), {}};
    return {{}, std::move(pieces)};
  }

  void keep(std::string_view text,
            std::size_t begin,
            std::size_t end,
            std::vector<std::string>& pieces) const {
    if (begin >= end) return;
    const std::string_view piece = text.substr(begin, end - begin);
    if (characters_of(piece) < least_) return;
    pieces.emplace_back(piece);
  }

  std::string do_fingerprint() const override {
    u64 sum = 0;  // in any order
    for (const u64 run : runs_) sum += run;
    return fmt::format("{} runs, {:016x}", runs_.size(), sum);
  }

  i64 words_, margin_, least_;
  std::unordered_set<u64> runs_;
};

}  // namespace
}  // namespace tessera

TESSERA_PLUGIN(stage_overlap, "0.1.0", "Cuts texts for evaluation out of documents") {
  registrar.add<tessera::DocumentStage, tessera::Overlap>(
      "overlap",
      "Cuts out of each document what it shares with texts for evaluation: 13 words in a row, and "
      "200 characters on each side. Pieces of 200 characters and more stay, as documents of their "
      "own.");
}
