#include "text_dataset.hpp"

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/permutation.hpp"

namespace tessera {

namespace {

SpecialTexts special_of(const TextDataset::Config& config, const Tokenizer& tokenizer) {
  if (!config.parse_special) return SpecialTexts::as_text;
  if (!tokenizer.has_special_texts()) {
    fail_config("data.parse_special = true, and the tokenizer has no special tokens ({})",
                tokenizer.fingerprint());
  }
  return SpecialTexts::parsed;
}

}  // namespace

void TextDataset::Config::describe(Schema<Config>& s) {
  s.field(
       "path",
       &Config::path,
       "text files, patterns as \"part-*.txt\", or folders whose *.txt files are taken; those of "
       "a pattern or folder in the order of their names. Read as one text. Identical on all "
       "ranks' machines")
      .is_path()
      .required()
      .megatron("--data-path");
  s.field("validation",
          &Config::validation,
          "share of the text that is held back for validation, by documents that run.seed chooses; "
          "0: none. A document is a file; what is larger than the share is cut: a file at its "
          "blank lines, a paragraph at its line ends, a line into equal parts")
      .at_least(0)
      .below(1);
  s.field("parse_special",
          &Config::parse_special,
          "whether special tokens of the tokenizer, as <|endoftext|>, are parsed where their texts "
          "stand in the files; false: they are text, so that who wrote a file does not choose its "
          "tokens");
  s.field(
      "eod", &Config::eod, "whether the tokenizer's token that ends a document follows each file");
}

TextDataset::TextDataset(const Config& config, DatasetArguments& arguments)
    : tokenizer_(arguments.tokenizer),
      corpus_({.paths = config.path,
               .special = special_of(config, *tokenizer_),
               .eod = config.eod,
               .share = config.validation,
               .key = random_key(arguments.seed, "data.validation"),
               .keep_in = arguments.keep_in},
              *tokenizer_),
      sequence_length_(arguments.sequence_length),
      shuffle_key_(random_key(arguments.seed, "data.shuffle")),
      training_windows_(windows("training", SampleSet::train)) {
  if (config.validation > 0) validation_windows_ = windows("validation", SampleSet::validation);
}

i64 TextDataset::windows(std::string_view what, SampleSet set) const {
  const i64 tokens = corpus_.tokens(set);
  if (tokens > sequence_length_) return (tokens - 1) / sequence_length_;
  fail_config(
      "data.path: the {} part has {} of the text's {} tokens; one sample of sequence length {} "
      "needs {}. Give more text, a shorter sequence_length or another data.validation (0: none)",
      what,
      tokens,
      corpus_.tokens(),
      sequence_length_,
      sequence_length_ + 1);
}

std::vector<FieldInfo> TextDataset::do_fields() const {
  return {{"tokens", DType::i64, ""}, {"targets", DType::i64, ""}, {"loss_mask", DType::u8, "lm"}};
}

i64 TextDataset::do_size(SampleSet set) const {
  if (set == SampleSet::train) return training_windows_;
  return set == SampleSet::validation ? validation_windows_ : 0;
}

i64 TextDataset::window_of(SampleSet set, i64 ordinal) const {
  const i64 windows = size(set), epoch = ordinal / windows, window = ordinal % windows;
  if (set != SampleSet::train) return window;
  return Permutation(windows, shuffle_key_, static_cast<u64>(epoch))(window);
}

std::string TextDataset::do_origin(SampleSet set, i64 ordinal) const {
  const i64 begin = window_of(set, ordinal) * sequence_length_;
  return fmt::format("tokens {} to {} of the {} text",
                     begin,
                     begin + sequence_length_,
                     set == SampleSet::train ? "training" : "validation");
}

void TextDataset::do_read(SampleSet set, i64 ordinal, const SampleBuffers& out) const {
  const i64 windows = size(set);
  require(ordinal >= 0 && windows > 0,
          "text dataset: sample {} of a set of {} was asked for",
          ordinal,
          windows);
  require(out.fields.size() == 3, "text dataset: 3 fields, not {}", out.fields.size());
  const i64 begin = window_of(set, ordinal) * sequence_length_;
  corpus_.copy(set, begin, sequence_length_, static_cast<i64*>(out.fields[0]));
  corpus_.copy(set, begin + 1, sequence_length_, static_cast<i64*>(out.fields[1]));
  std::fill_n(static_cast<u8*>(out.fields[2]), sequence_length_, u8{1});
}

// Without validation, the words are those of versions that held back the end of the text: their
// samples are the same.
std::string TextDataset::do_fingerprint() const {
  const i64 all = corpus_.tokens(), held = corpus_.tokens(SampleSet::validation);
  std::string text = fmt::format("text {:016x}: {} tokens, vocabulary {}, validation ",
                                 corpus_.hash(),
                                 all,
                                 tokenizer_->vocabulary());
  if (validation_windows_ == 0) return text + fmt::format("from {}", all);
  return text + fmt::format("of {} tokens in {} {} that the seed chose ({:016x})",
                            held,
                            corpus_.documents(SampleSet::validation),
                            corpus_.unit(),
                            corpus_.split_hash());
}

SetContent TextDataset::do_content(SampleSet set) const {
  if (set == SampleSet::test) return {};
  return {corpus_.documents(set), corpus_.unit(), corpus_.tokens(set)};
}

std::vector<const DataFile*> TextDataset::do_files() const {
  std::vector<const DataFile*> files;
  for (const DataFile& file : corpus_.files()) files.push_back(&file);
  return files;
}

}  // namespace tessera
