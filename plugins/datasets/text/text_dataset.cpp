#include "text_dataset.hpp"

#include <algorithm>

#include "permutation.hpp"
#include "tessera/error.hpp"

namespace tessera {

void TextDataset::Config::describe(Schema<Config>& s) {
  s.field("path",
          &Config::path,
          "text files, or folders whose *.txt files are taken in the order of their names; read as "
          "one text. Identical on all ranks' machines")
      .is_path()
      .required()
      .megatron("--data-path");
  s.field(
       "validation", &Config::validation, "the last part of the text, kept for validation; 0: none")
      .at_least(0)
      .below(1)
      .megatron("--split");
}

TextDataset::TextDataset(const Config& config, DatasetArguments& arguments)
    : tokenizer_(arguments.tokenizer),
      corpus_(config.path, *tokenizer_),
      sequence_length_(arguments.sequence_length),
      shuffle_key_(random_key(arguments.seed, "data.shuffle")) {
  const i64 all = corpus_.tokens();
  auto kept = static_cast<i64>(config.validation * static_cast<double>(all));
  train_ = cut("training", 0, all - kept);
  if (config.validation > 0) validation_ = cut("validation", all - kept, kept);
}

TextDataset::Part TextDataset::cut(std::string_view what, i64 first_token, i64 tokens) const {
  if (tokens <= sequence_length_) {
    fail_config(
        "data.path: the {} part has {} of the text's {} tokens; one sample of sequence length {} "
        "needs {}. Give more text, a shorter sequence_length or another data.validation (0: none)",
        what,
        tokens,
        corpus_.tokens(),
        sequence_length_,
        sequence_length_ + 1);
  }
  return {first_token, (tokens - 1) / sequence_length_};
}

std::vector<FieldInfo> TextDataset::fields() const {
  return {{"tokens", DType::i64, ""}, {"targets", DType::i64, ""}, {"loss_mask", DType::u8, "lm"}};
}

i64 TextDataset::size(SampleSet set) const { return part(set).windows; }

void TextDataset::read(SampleSet set, i64 ordinal, const SampleBuffers& out) const {
  const Part& from = part(set);
  require(ordinal >= 0 && from.windows > 0,
          "text dataset: sample {} of a set of {} was asked for",
          ordinal,
          from.windows);
  require(out.fields.size() == 3, "text dataset: 3 fields, not {}", out.fields.size());
  const i64 epoch = ordinal / from.windows;
  i64 window = ordinal % from.windows;
  if (set == SampleSet::train) {
    window = Permutation(from.windows, shuffle_key_, static_cast<u64>(epoch))(window);
  }
  const i64 begin = from.first_token + window * sequence_length_;
  corpus_.copy(begin, sequence_length_, static_cast<i64*>(out.fields[0]));
  corpus_.copy(begin + 1, sequence_length_, static_cast<i64*>(out.fields[1]));
  std::fill_n(static_cast<u8*>(out.fields[2]), sequence_length_, u8{1});
}

std::string TextDataset::fingerprint() const {
  return fmt::format("text {:016x}: {} tokens, vocabulary {}, validation from {}",
                     corpus_.hash(),
                     corpus_.tokens(),
                     tokenizer_->vocabulary(),
                     validation_.windows > 0 ? validation_.first_token : corpus_.tokens());
}

}  // namespace tessera
