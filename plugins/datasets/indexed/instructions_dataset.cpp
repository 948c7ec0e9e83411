#include "instructions_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include "epoch_order.hpp"
#include "instruction_cut.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/permutation.hpp"
#include "tessera/random.hpp"

namespace tessera {
namespace {

constexpr double kValidation = 0.05;

InstructionTokens::TooLong too_long(const std::string& word) {
  if (word == "drop") return InstructionTokens::TooLong::drop;
  return word == "cut_prompt" ? InstructionTokens::TooLong::cut_prompt
                              : InstructionTokens::TooLong::error;
}

std::optional<i32> end_of(const InstructionsDataset::Config& config, const Tokenizer& tokenizer) {
  if (!config.eos.value_or(true)) return {};
  const std::vector<i32> ends = tokenizer.special_ids().eos;
  if (!ends.empty()) return ends.front();
  if (!config.eos) return {};
  fail_config("data.eos = true, and the tokenizer has no token that ends a text ({})",
              tokenizer.fingerprint());
}

InstructionTokens::Choices choices_of(const InstructionsDataset::Config& config,
                                      const DatasetArguments& arguments) {
  if (config.parse_special && !arguments.tokenizer->has_special_texts()) {
    fail_config("data.parse_special = true, and the tokenizer has no special tokens ({})",
                arguments.tokenizer->fingerprint());
  }
  InstructionTokens::Choices choices;
  choices.key = "data.path";
  choices.paths = config.path;
  choices.prompt_field = config.prompt_field;
  choices.answer_field = config.answer_field;
  if (config.parse_special) choices.special = SpecialTexts::parsed;
  choices.end = end_of(config, *arguments.tokenizer);
  choices.most = arguments.sequence_length + 1;  // the last token is a target only
  choices.too_long = too_long(config.too_long);
  choices.keep_in = arguments.keep_in;
  return choices;
}

// An example of a file that is named twice would train and validate.
void require_different_files(const InstructionsDataset::Config& config) {
  std::vector<std::string> before;
  const auto look = [&](const char* key, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      const auto same = std::ranges::find_if(before, [&](const std::string& other) {
        std::error_code unknown;
        return std::filesystem::equivalent(path, other, unknown);
      });
      if (same != before.end()) {
        const bool alike = *same == path;
        fail_config("{}: {} is named twice{}",
                    key,
                    written_path(path),
                    alike ? "" : fmt::format(": {} is the same file", written_path(*same)));
      }
      before.push_back(path);
    }
  };
  look("data.path", config.path);
  look("data.validation_path", config.validation_path);
}

std::vector<i64> numbers(i64 count) {
  std::vector<i64> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), i64{0});
  return all;
}

}  // namespace

void InstructionsDataset::Config::describe(Schema<Config>& s) {
  s.field("path",
          &Config::path,
          "files with an example a line, as {\"prompt\": \"…\", \"answer\": \"…\"}. Identical on "
          "all ranks' machines")
      .is_path()
      .required();
  s.field("validation_path",
          &Config::validation_path,
          "the same for the validation set, which is not held back from `path` then")
      .is_path();
  s.field("validation",
          &Config::validation,
          "share of the examples that is held back for validation, which run.seed chooses; 0: "
          "none. auto: 0.05, and none where validation_path is written")
      .at_least(0)
      .below(1);
  s.field("prompt_field", &Config::prompt_field, "the field of an object that has the prompt");
  s.field("answer_field", &Config::answer_field, "the field of an object that has the answer");
  s.field("eos",
          &Config::eos,
          "whether the tokenizer's token that ends a text ends each answer, and is learned as part "
          "of it; auto: where it has one");
  s.field("parse_special",
          &Config::parse_special,
          "whether special tokens of the tokenizer, as <|endoftext|>, are parsed where their texts "
          "stand in prompts and answers, as generate parses them in prompts; false: they are text, "
          "and a warning tells of the first where one of the first 1,000 examples has such");
  s.field(
       "pack",
       &Config::pack,
       "none: a sample is one example, then padding without loss. examples: as many as fit best; "
       "each sees only itself and counts its positions from 0, so that it gives what it gives "
       "alone")
      .one_of({"none", "examples"});
  s.field("too_long",
          &Config::too_long,
          "what becomes of an example that has more tokens than a sample has room for, which is "
          "batch.sequence_length + 1. error: the run does not start. cut_prompt: the begin of its "
          "prompt goes. drop: it is left out. The run's first lines say of how many")
      .one_of({"error", "cut_prompt", "drop"});
}

InstructionsDataset::InstructionsDataset(const Config& config, DatasetArguments& arguments)
    : tokenizer_(arguments.tokenizer),
      packed_(config.pack == "examples"),
      told_{.positions = packed_, .attention = packed_, .mask_ends = false},
      length_(arguments.sequence_length),
      vocabulary_(tokenizer_->vocabulary()) {
  if (arguments.vocabulary > 0 && arguments.vocabulary < vocabulary_) {
    vocabulary_ = arguments.vocabulary;
    vocabulary_owner_ = "model";
  }
  const bool own_set = !config.validation_path.empty();
  if (own_set && config.validation) {
    fail_config(
        "data.validation = {} and data.validation_path: the validation set is held back from "
        "data.path or has files of its own",
        *config.validation);
  }
  require_different_files(config);
  InstructionTokens::Choices choices = choices_of(config, arguments);
  const auto tokens = std::make_shared<const InstructionTokens>(choices, *tokenizer_);
  const i64 all = tokens->size();
  if (own_set) {
    choices.key = "data.validation_path";
    choices.paths = config.validation_path;
    const auto others = std::make_shared<const InstructionTokens>(choices, *tokenizer_);
    add(SampleSet::train, tokens, numbers(all), arguments);
    add(SampleSet::validation, others, numbers(others->size()), arguments);
    split_text_ = "from files of its own";
    return;
  }
  const double share = config.validation.value_or(kValidation);
  i64 held = 0;
  if (share > 0) {
    held = std::max<i64>(1, std::llround(share * static_cast<double>(all)));
    if (held >= all) {
      fail_config(
          "data.validation = {}: of {} examples it would be {}, and none is left to train on; give "
          "more examples, or 0 for no validation",
          share,
          all,
          held);
    }
  }
  std::vector<i64> training, validation;
  const Permutation chosen(all, random_key(arguments.seed, "data.validation"), 0);
  for (i64 i = 0; i < all; ++i) (chosen(i) < held ? validation : training).push_back(i);
  add(SampleSet::train, tokens, std::move(training), arguments);
  if (held > 0) add(SampleSet::validation, tokens, std::move(validation), arguments);
  split_text_ = fmt::format("of {} that the seed {} chose", held, arguments.seed);
}

void InstructionsDataset::add(SampleSet set,
                              std::shared_ptr<const InstructionTokens> tokens,
                              std::vector<i64> examples,
                              const DatasetArguments& arguments) {
  Set& here = of(set);
  here.tokens = tokens;
  here.examples = static_cast<i64>(examples.size());
  for (const i64 example : examples) here.used += tokens->end(example) - tokens->begin(example);
  std::vector<std::unique_ptr<Cut>> cuts;
  cuts.push_back(std::make_unique<InstructionCut>(
      std::move(tokens), std::move(examples), packed_ ? length_ : 0, arguments.keep_in));
  std::optional<u64> key;
  if (set == SampleSet::train) key = random_key(arguments.seed, "data.shuffle");
  here.order = std::make_unique<EpochOrder>(std::move(cuts), std::vector<double>(), key);
}

i64 InstructionsDataset::do_size(SampleSet set) const {
  return of(set).order != nullptr ? of(set).order->size() : 0;
}

Sample InstructionsDataset::find(SampleSet set, i64 ordinal) const {
  require(ordinal >= 0 && of(set).order != nullptr,
          "instructions dataset: sample {} of an empty set was asked for",
          ordinal);
  Sample sample;
  of(set).order->find(ordinal, sample);
  return sample;
}

void InstructionsDataset::do_read(SampleSet set, i64 ordinal, const SampleBuffers& out) const {
  const std::size_t fields = sample_fields(told_).size();
  require(out.fields.size() == fields,
          "instructions dataset: {} fields, not {}",
          fields,
          out.fields.size());
  write_fields(
      find(set, ordinal), *of(set).tokens, told_, length_, vocabulary_, vocabulary_owner_, out);
}

std::string InstructionsDataset::do_origin(SampleSet set, i64 ordinal) const {
  constexpr std::size_t kShown = 8;
  const Sample sample = find(set, ordinal);
  const InstructionTokens& tokens = *of(set).tokens;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, sample.pieces.size()); ++i) {
    text += i > 0 ? ", " : "";
    text += tokens.origin(tokens.example_of(sample.pieces[i].begin));
  }
  if (sample.pieces.size() > kShown) text += fmt::format(", ... ({})", sample.pieces.size());
  return text;
}

std::string InstructionsDataset::do_fingerprint() const {
  const Set& train = of(SampleSet::train);
  std::string text = fmt::format("instructions {:016x}: {} examples, sequence length {}, {}",
                                 train.tokens->hash(),
                                 train.tokens->size(),
                                 length_,
                                 packed_ ? "packed" : "one a sample");
  const Set& validation = of(SampleSet::validation);
  if (validation.order == nullptr) return text + ", no validation";
  return text + fmt::format(", validation {:016x} {}", validation.tokens->hash(), split_text_);
}

SetContent InstructionsDataset::do_content(SampleSet set) const {
  const Set& here = of(set);
  if (here.order == nullptr) return {};
  std::string unit = "examples";
  // Before the validation set was held back.
  if (set == SampleSet::train || here.tokens != of(SampleSet::train).tokens) {
    if (here.tokens->cut() > 0) unit += fmt::format(" (prompts cut: {})", here.tokens->cut());
    if (here.tokens->dropped() > 0) unit += fmt::format(" (left out: {})", here.tokens->dropped());
  }
  return {here.examples, unit, here.used};
}

std::vector<const DataFile*> InstructionsDataset::do_files() const {
  std::vector<const DataFile*> files;
  for (const SampleSet set : {SampleSet::train, SampleSet::validation}) {
    const Set& here = of(set);
    if (here.tokens == nullptr) continue;
    const bool again = set == SampleSet::validation && here.tokens == of(SampleSet::train).tokens;
    if (again) continue;
    for (const DataFile& file : here.tokens->files()) files.push_back(&file);
  }
  return files;
}

}  // namespace tessera
