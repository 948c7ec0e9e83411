#include "vocabulary_trainer.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "tessera/bounds.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "training_sentences.hpp"

namespace tessera {

namespace {

constexpr i64 kSmallest = 3 + 256 + 1;  // special ones, bytes, and a character

std::string word(bool value) { return value ? "true" : "false"; }

// The number that stands after `mark` in the library's words.
std::optional<i64> number_after(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == text.npos) return {};
  i64 number = 0;
  const char* begin = text.data() + at + mark.size();
  const auto read = std::from_chars(begin, text.data() + text.size(), number);
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

[[noreturn]] void refuse(const VocabularyTrainer::Config& config, std::string_view why) {
  if (const auto most = number_after(why, "Please set it to a value <= ")) {
    fail_config(
        "trainer.vocabulary = {}: these texts give at most {} tokens; give more text, or "
        "that number or a smaller one",
        config.vocabulary,
        *most);
  }
  if (const auto least = number_after(why, fmt::format("{} vs ", config.vocabulary))) {
    fail_config(
        "trainer.vocabulary = {}: special tokens, bytes and the characters that these "
        "texts need are {} already; raise it, or lower trainer.character_coverage",
        config.vocabulary,
        *least);
  }
  const std::size_t place = why.find("] ");  // its source file and condition end there
  if (place != why.npos) why.remove_prefix(place + 2);
  fail_config("trainer: SentencePiece does not train on these texts: {}",
              written_plain(why.empty() ? "it does not say why" : why, 400));
}

}  // namespace

void VocabularyTrainer::Config::describe(Schema<Config>& s) {
  s.field(
       "vocabulary", &Config::vocabulary, "tokens, with the three special ones and the 256 bytes")
      .required()
      .at_least(kSmallest)
      .at_most(kMostVocabulary);
  s.field("character_coverage",
          &Config::character_coverage,
          "share of the texts' characters that are tokens, the most frequent first; others are "
          "written as bytes")
      .at_least(0.98)
      .at_most(1);
  s.field("split_digits", &Config::split_digits, "whether each digit is a token of its own");
  s.field("longest_token", &Config::longest_token, "characters of a token, at most")
      .at_least(1)
      .at_most(512);
  s.field("normalization",
          &Config::normalization,
          "identity: texts stay as they are. nfkc: its normal form first, so that a text comes "
          "back as another; nmt_nfkc: of white space and control characters more; _cf: small "
          "letters")
      .one_of({"identity", "nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf"});
}

// A text may begin anywhere in another, and comes back as it was: so no space is put before it, and
// none goes. Runs of spaces are tokens, as code has them. The library's sums depend on its number
// of threads, which therefore is a constant.
VocabularyTrainer::VocabularyTrainer(const Config& config, std::string_view model_type)
    : config_(config),
      options_{{"model_type", std::string(model_type)},
               {"vocab_size", fmt::format("{}", config.vocabulary)},
               {"character_coverage", fmt::format("{}", config.character_coverage)},
               {"split_digits", word(config.split_digits)},
               {"max_sentencepiece_length", fmt::format("{}", config.longest_token)},
               {"normalization_rule_name", config.normalization},
               {"byte_fallback", word(true)},
               {"add_dummy_prefix", word(false)},
               {"remove_extra_whitespaces", word(false)},
               {"allow_whitespace_only_pieces", word(true)},
               {"unk_id", "0"},
               {"bos_id", "1"},
               {"eos_id", "2"},
               {"pad_id", "-1"},
               {"num_threads", "16"}} {
  require_trainer();
}

std::string VocabularyTrainer::do_train(const std::vector<std::string>& texts) const {
  std::string sentence;
  if (!TrainingSentences(texts).next(sentence)) {
    fail_config(
        "input: there is no text in it but line feeds, zero bytes and U+2585, at which "
        "SentencePiece cuts");
  }
  TrainedModel model = train_model(options_, texts);
  if (model.bytes.empty()) refuse(config_, model.why);
  return std::move(model.bytes);
}

}  // namespace tessera
