#include "bert_dataset.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "epoch_order.hpp"
#include "megatron_order.hpp"
#include "philox_words.hpp"
#include "sentence_cut.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/random.hpp"
#include "token_source.hpp"

namespace tessera {
namespace {

constexpr i64 kSpecial = 3;           // [CLS] and two [SEP]
constexpr double kLeastShort = 1e-6;  // one in a million samples

// Keys that have no meaning are errors.
const TokenSetKeys& checked(const BertDataset::Config& config, const DatasetArguments& arguments) {
  const i64 tokens = arguments.tokenizer->vocabulary();
  if (arguments.sequence_length < kSpecial + 2) {
    fail_config("batch.sequence_length = {}: data.type = \"bert\" needs at least {}",
                arguments.sequence_length,
                kSpecial + 2);
  }
  if (config.short_sequences > 0 && config.short_sequences < kLeastShort) {
    fail_config(
        "data.short_sequences = {}: expected 0, or {} to 1", config.short_sequences, kLeastShort);
  }
  // There the seed and the one after it are of 32 bits with a sign.
  constexpr u64 kMostSeed = std::numeric_limits<i32>::max() - 1;
  if (config.order == "megatron" && arguments.seed > kMostSeed) {
    fail_config(
        "data.order = \"megatron\": run.seed is {}, and seeds of its mapping are at most {}",
        arguments.seed,
        kMostSeed);
  }
  if (arguments.vocabulary > 0 && arguments.vocabulary < tokens) {
    fail_config(
        "data.type = \"bert\" draws any of the tokenizer's {} tokens, and the model has {} rows",
        tokens,
        arguments.vocabulary);
  }
  return config;
}

}  // namespace

void BertDataset::Config::describe(Schema<Config>& s) {
  describe_paths(s);
  s.field(
       "order",
       &Config::order,
       "tessera: sentences in an order of their own each epoch, and masks of their own each time, "
       "which are the same for any number of steps; megatron: the samples of Megatron-LM's "
       "BERTMaskedWordPieceDataset for run.steps and run.seed, so another number of steps is "
       "another order. Several files need weights with it")
      .one_of({"tessera", "megatron"});
  s.field("short_sequences",
          &Config::short_sequences,
          "share of samples that are made shorter, of 2 tokens to sequence_length - 3: one in "
          "round(1 / share), as in Megatron-LM")
      .at_least(0)
      .at_most(1)
      .megatron("--short-seq-prob");
  s.field("mask_probability",
          &Config::mask_probability,
          "share of a sample's tokens that are to be predicted, at most")
      .above(0)
      .below(1)
      .megatron("--mask-prob");
  s.field("ngrams",
          &Config::ngrams,
          "so many words that follow each other are masked together at most; n of them are drawn "
          "with a weight of 1/n")
      .at_least(1)
      .at_most(1000);
  s.field("pairs",
          &Config::pairs,
          "whether a sample has two halves, whose order is to be told (fields label and "
          "label_mask); false: one text of a sentence or more, without these fields")
      .also("--bert-no-binary-head", "is {} = false here");
}

BertDataset::BertDataset(const Config& config, DatasetArguments& arguments)
    : pairs_(config.pairs),
      length_(arguments.sequence_length),
      seed_(arguments.seed),
      megatron_(config.order == "megatron"),
      rules_(*arguments.tokenizer, config.mask_probability, config.ngrams),
      short_sequences_(config.short_sequences),
      training_samples_(arguments.training_samples),
      sets_(checked(config, arguments), *arguments.tokenizer, false) {
  require_sentences();
  for (const SampleSet set : TokenSets::kSets) put_in_order(set, arguments);
}

DocumentUse BertDataset::use_of(const TokenIndex& index, i64 document) const {
  return tessera::use_of(index, document, pairs_ ? 2 : 1);
}

// Of each file, whatever sets have of it: one without a sample is a mistake.
void BertDataset::require_sentences() const {
  const auto check = [&](const TokenFile& file, const std::string& key) {
    i64 too_long = 0;
    for (i64 i = 0; i < file.index().documents(); ++i) {
      const DocumentUse use = use_of(file.index(), i);
      if (use == DocumentUse::used) return;
      too_long += use == DocumentUse::too_long ? 1 : 0;
    }
    const std::string name = quote(written_path(file.prefix()));
    if (too_long > 0) {
      fail_config(
          "{}: {} has {} documents of two sentences or more, and each has a sentence of more than "
          "{} tokens",
          key,
          name,
          too_long,
          SentenceMap::kLongSentence);
    }
    if (!pairs_) fail_config("{}: {} has no sentence", key, name);
    fail_config(
        "{}: {} has one sentence a document; [data.stages] sentences makes more", key, name);
  };
  for (const SampleSet set : TokenSets::kSets) {
    for (const Part& part : sets_.of(set).parts) check(*part.file, sets_.of(set).key);
  }
}

void BertDataset::put_in_order(SampleSet set, const DatasetArguments& arguments) {
  const TokenSets::Set& here = sets_.of(set);
  // There, a file without a weight has no number of samples, and its mapping takes none.
  if (megatron_ && here.parts.size() > 1 && here.weights.empty()) {
    fail_config(
        "{}: {} files without weights, which Megatron-Core's BERT dataset does not read, so "
        "data.order = \"megatron\" has no samples for them: give a weight before each, or choose "
        "order = \"tessera\"",
        here.key,
        here.parts.size());
  }
  const auto gives = [&](const Part& part) {
    for (i64 i = part.items.begin; i < part.items.end; ++i) {
      if (use_of(part.file->index(), i) == DocumentUse::used) return true;
    }
    return false;
  };
  const auto lacks = [&](const Part* part) {
    fail_config("{}: the {} part of {} has no document of {}, none longer than {} tokens{}",
                here.key,
                name_of(set),
                part != nullptr ? quote(written_path(part->file->prefix())) : "each file",
                pairs_ ? "two sentences or more" : "sentences",
                SentenceMap::kLongSentence,
                here.split ? "; give another data.split" : "");
  };
  const std::vector<Part> parts = sets_.giving(set, gives, lacks);
  if (parts.empty()) return;
  const bool train = set == SampleSet::train;
  const auto cut = [&](Part part, std::optional<i64> samples) {
    const SentenceRequest request{
        length_ - kSpecial, short_sequences_, samples, pairs_ ? 2 : 1, seed_, megatron_};
    return std::make_unique<SentenceCut>(std::move(part), request, arguments.keep_in);
  };
  auto& order = orders_[static_cast<std::size_t>(set)];
  if (megatron_) {
    std::optional<i64> samples;
    if (train && training_samples_ > 0) samples = training_samples_;
    order = std::make_unique<MegatronOrder>(parts, here.weights, samples, arguments.keep_in, cut);
    return;
  }
  std::vector<std::unique_ptr<Cut>> cuts;
  cuts.reserve(parts.size());
  for (const Part& part : parts) cuts.push_back(cut(part, std::nullopt));
  std::optional<u64> key;
  if (train) key = random_key(seed_, "data.shuffle");
  order = std::make_unique<EpochOrder>(std::move(cuts), here.weights, key);
}

i64 BertDataset::do_size(SampleSet set) const {
  return order_of(set) != nullptr ? order_of(set)->size() : 0;
}

Sample BertDataset::find(SampleSet set, i64 ordinal) const {
  require(ordinal >= 0 && order_of(set) != nullptr,
          "bert dataset: sample {} of an empty {} set was asked for",
          ordinal,
          name_of(set));
  Sample sample;
  order_of(set)->find(ordinal, sample);
  return sample;
}

void BertDataset::do_read(SampleSet set, i64 ordinal, const SampleBuffers& out) const {
  const std::size_t fields = bert_fields(pairs_).size();
  require(
      out.fields.size() == fields, "bert dataset: {} fields, not {}", fields, out.fields.size());
  const Sample sample = find(set, ordinal);
  require(sample.target <= length_ - kSpecial && (!pairs_ || sample.pieces.size() > 1),
          "a map of sentences that was kept is damaged");
  Sentences sentences;
  sentences.target = sample.target;
  i64 end = 0;
  for (const Piece& piece : sample.pieces) sentences.ends.push_back(end += piece.count);
  sentences.tokens.resize(static_cast<std::size_t>(end));
  copy_ids(FileTokens(*sample.file),
           sample.pieces[0].begin,
           end,
           sentences.tokens.data(),
           rules_.vocabulary(),
           "tokenizer");
  if (megatron_) {
    auto draws = numpy_random_state(static_cast<u32>(seed_ + static_cast<u64>(sample.number)));
    write_bert_sample(rules_, sentences, pairs_, length_, draws, out);
  } else {
    const u64 key = random_key(seed_, std::string("data.masks.") + name_of(set));
    NumpyDraws draws(PhiloxWords(key, static_cast<u64>(ordinal)));
    write_bert_sample(rules_, sentences, pairs_, length_, draws, out);
  }
}

std::string BertDataset::do_origin(SampleSet set, i64 ordinal) const {
  const Sample sample = find(set, ordinal);
  const auto count = static_cast<i64>(sample.pieces.size());
  i64 empty = 0;  // sentences before the first one with a token
  while (empty < count && sample.pieces[static_cast<std::size_t>(empty)].count == 0) ++empty;
  if (empty == count) return {};
  const TokenIndex& index = sample.file->index();
  const i64 token = sample.pieces[static_cast<std::size_t>(empty)].begin;
  const i64 document = index.document_at(token);
  const i64 first = index.sequence_at(token) - empty - index.first_sequence(document);
  return fmt::format("sentences {} to {} of document {} of {}",
                     first,
                     first + count - 1,
                     document,
                     written_path(sample.file->prefix()));
}

std::string BertDataset::do_fingerprint() const {
  std::string text =
      fmt::format("bert {}, order {}", sets_.identity(), megatron_ ? "megatron" : "tessera");
  if (megatron_) {
    text += fmt::format(" for {} samples (run.steps · batch.global)", training_samples_);
  }
  if (!pairs_) text += ", no pairs";
  return text + fmt::format(", {} tokens, short {}, masked {} in runs of {}",
                            length_,
                            short_sequences_,
                            rules_.probability,
                            rules_.bounds.size());
}

SetContent BertDataset::do_content(SampleSet set) const {
  SetContent content = sets_.content(set);
  i64 too_few = 0, too_long = 0;
  for (const Part& part : sets_.of(set).parts) {
    for (i64 i = part.items.begin; i < part.items.end; ++i) {
      const DocumentUse use = use_of(part.file->index(), i);
      too_few += use == DocumentUse::too_few ? 1 : 0;
      too_long += use == DocumentUse::too_long ? 1 : 0;
    }
  }
  if (too_few > 0) {
    content.unit += fmt::format(
        " (left out, of {}: {})", pairs_ ? "fewer than two sentences" : "no sentence", too_few);
  }
  if (too_long > 0) {
    content.unit += fmt::format(" (left out, with a sentence of more than {} tokens: {})",
                                SentenceMap::kLongSentence,
                                too_long);
  }
  return content;
}

}  // namespace tessera
