#include "indexed_dataset.hpp"

#include <algorithm>
#include <limits>

#include "epoch_order.hpp"
#include "megatron_cut.hpp"
#include "megatron_order.hpp"
#include "packed_cut.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/random.hpp"

namespace tessera {
namespace {

// A key that would have no effect is an error.
void check_pack(const IndexedDataset::Config& config) {
  if (config.pack != "documents") return;
  constexpr const char* kWhat = "data.pack = \"documents\"";
  if (config.order == "megatron") fail_config("{}: data.order = \"megatron\" packs nothing", kWhat);
  if (!config.reset_attention) {
    fail_config("{}: documents of a sample would see each other; set data.reset_attention = true",
                kWhat);
  }
  if (config.mask_eod_loss) {
    fail_config(
        "{}: data.mask_eod_loss has no effect: the last token of a document is a target only",
        kWhat);
  }
  if (config.validation_tail) {
    fail_config("{}: data.validation_tail has no effect: samples have all tokens", kWhat);
  }
}

const TokenSetKeys& checked(const IndexedDataset::Config& config, u64 seed) {
  if (config.order == "megatron" && seed > std::numeric_limits<u32>::max()) {
    fail_config("data.order = \"megatron\": run.seed is {}, and seeds of NumPy are below 2^32",
                seed);
  }
  check_pack(config);
  return config;
}

}  // namespace

void IndexedDataset::Config::describe(Schema<Config>& s) {
  describe_paths(s);
  s.field(
       "order",
       &Config::order,
       "tessera: windows of the files' tokens, in an order of their own each epoch, which is the "
       "same for any number of steps and needs no index; megatron: the samples of Megatron-LM's "
       "GPTDataset for run.steps and run.seed, so another number of steps is another order")
      .one_of({"tessera", "megatron"});
  s.field(
       "pack",
       &Config::pack,
       "none: documents are cut where a sample ends. documents: a sample has whole documents, as "
       "many as fit best, then padding without loss; only a document that is longer than a "
       "sample is cut. Then reset_attention has to be true, so that they are apart")
      .one_of({"none", "documents"});
  s.field("reset_positions",
          &Config::reset_positions,
          "whether positions count from the begin of each document in a sample")
      .megatron("--reset-position-ids");
  s.field("reset_attention",
          &Config::reset_attention,
          "whether tokens see nothing of other documents in their sample")
      .megatron("--reset-attention-mask");
  s.field("mask_eod_loss",
          &Config::mask_eod_loss,
          "whether the last token of a document, which ends it, has no loss: what follows it is "
          "another document's")
      .megatron("--eod-mask-loss");
  s.field("validation_tail",
          &Config::validation_tail,
          "whether the validation set has a last sample of what is left after the full ones, with "
          "padding that has no loss");
}

IndexedDataset::IndexedDataset(const Config& config, DatasetArguments& arguments)
    : tokenizer_(arguments.tokenizer),
      documents_{config.reset_positions, config.reset_attention, config.mask_eod_loss},
      fields_(sample_fields(documents_)),
      length_(arguments.sequence_length),
      vocabulary_(tokenizer_->vocabulary()),
      training_samples_(arguments.training_samples),
      megatron_(config.order == "megatron"),
      packed_(config.pack == "documents"),
      tail_(config.validation_tail),
      sets_(checked(config, arguments.seed), *tokenizer_, megatron_) {
  if (arguments.vocabulary > 0 && arguments.vocabulary < vocabulary_) {
    vocabulary_ = arguments.vocabulary;
    vocabulary_owner_ = "model";
  }
  order_text_ = config.order;
  if (packed_) order_text_ += fmt::format(", documents packed into {} tokens", length_);
  if (megatron_) {
    order_text_ += fmt::format(
        " for {} samples (run.steps · batch.global) of {} tokens", training_samples_, length_);
  }
  for (const SampleSet set : TokenSets::kSets) put_in_order(set, arguments);
}

// That a file needs to give a sample: in the order "megatron" several epochs may make one, and a
// pack has padding.
i64 IndexedDataset::least_tokens(SampleSet set) const {
  const TokenSets::Set& here = sets_.of(set);
  const bool many = here.parts.size() > 1 && here.weights.empty();
  const bool epochs = megatron_ && set == SampleSet::train && training_samples_ > 0 && !many;
  if (packed_) return 2;
  return epochs ? 1 : length_ + 1;
}

void IndexedDataset::put_in_order(SampleSet set, const DatasetArguments& arguments) {
  const TokenSets::Set& here = sets_.of(set);
  const i64 least = least_tokens(set);
  const auto gives = [&](const Part& part) { return part.tokens() >= least; };
  const auto lacks = [&](const Part* part) {
    const i64 most = std::ranges::max(here.parts, {}, &Part::tokens).tokens();
    fail_config(
        "{}: the {} part of {} has {} tokens; one sample of sequence length {} needs {}. Give more "
        "text, a shorter sequence_length{}",
        here.key,
        name_of(set),
        part != nullptr ? quote(written_path(part->file->prefix())) : "each file",
        part != nullptr ? part->tokens() : most,
        length_,
        least,
        here.split ? " or another data.split" : "");
  };
  const std::vector<Part> parts = sets_.giving(set, gives, lacks);
  if (parts.empty()) return;
  if (!megatron_) {
    order_of(set) = epochs(set, parts, arguments);
    return;
  }
  std::optional<i64> samples;
  if (set == SampleSet::train && training_samples_ > 0) samples = training_samples_;
  order_of(set) = std::make_unique<MegatronOrder>(
      parts, here.weights, samples, arguments.keep_in, [&](Part part, std::optional<i64> wanted) {
        const IndexRequest request{length_,
                                   wanted,
                                   static_cast<u32>(arguments.seed),
                                   tail_ && set == SampleSet::validation};
        return std::make_unique<MegatronCut>(std::move(part), request, arguments.keep_in);
      });
}

std::unique_ptr<Order> IndexedDataset::epochs(SampleSet set,
                                              const std::vector<Part>& parts,
                                              const DatasetArguments& arguments) const {
  std::vector<std::unique_ptr<Cut>> cuts;
  for (const Part& part : parts) {
    if (packed_) {
      cuts.push_back(std::make_unique<PackedCut>(part, length_, arguments.keep_in));
      if (cuts.back()->size() == 0) {
        fail_config("data.pack = \"documents\": of the {} part of {} no document has two tokens",
                    name_of(set),
                    quote(written_path(part.file->prefix())));
      }
    } else {
      const bool tail = tail_ && set == SampleSet::validation;
      cuts.push_back(std::make_unique<WindowCut>(part, length_, tail));
    }
  }
  std::optional<u64> key;
  if (set == SampleSet::train) key = random_key(arguments.seed, "data.shuffle");
  return std::make_unique<EpochOrder>(std::move(cuts), sets_.of(set).weights, key);
}

i64 IndexedDataset::do_size(SampleSet set) const {
  return order_of(set) != nullptr ? order_of(set)->size() : 0;
}

Sample IndexedDataset::find(SampleSet set, i64 ordinal) const {
  require(ordinal >= 0 && order_of(set) != nullptr,
          "indexed dataset: sample {} of an empty {} set was asked for",
          ordinal,
          name_of(set));
  Sample sample;
  order_of(set)->find(ordinal, sample);
  return sample;
}

void IndexedDataset::do_read(SampleSet set, i64 ordinal, const SampleBuffers& out) const {
  require(out.fields.size() == fields_.size(),
          "indexed dataset: {} fields, not {}",
          fields_.size(),
          out.fields.size());
  const Sample sample = find(set, ordinal);
  write_fields(
      sample, FileTokens(*sample.file), documents_, length_, vocabulary_, vocabulary_owner_, out);
}

std::string IndexedDataset::do_origin(SampleSet set, i64 ordinal) const {
  constexpr std::size_t kShown = 8;
  const Sample sample = find(set, ordinal);
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, sample.pieces.size()); ++i) {
    const i64 document = sample.file->index().document_at(sample.pieces[i].begin);
    text += fmt::format("{}{}", i > 0 ? ", " : "", document);
  }
  if (sample.pieces.size() > kShown) text += fmt::format(", ... ({})", sample.pieces.size());
  return fmt::format("{} {} of {}",
                     sample.pieces.size() == 1 ? "document" : "documents",
                     text,
                     written_path(sample.file->prefix()));
}

std::string IndexedDataset::do_fingerprint() const {
  std::string text = fmt::format("indexed {}, order {}", sets_.identity(), order_text_);
  if (documents_.positions) text += ", positions reset";
  if (documents_.attention) text += ", attention reset";
  if (documents_.mask_ends) text += ", ends of documents masked";
  if (tail_) text += ", with the validation set's tail";
  return text;
}

}  // namespace tessera
