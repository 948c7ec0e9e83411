#include "indexed_dataset.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "epoch_order.hpp"
#include "megatron_order.hpp"
#include "packed_cut.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/random.hpp"

namespace tessera {
namespace {

constexpr const char* kSplit = "98,2,0";
constexpr SampleSet kSets[] = {SampleSet::train, SampleSet::validation, SampleSet::test};
constexpr const char* kNames[] = {"training", "validation", "test"};

const char* name_of(SampleSet set) { return kNames[static_cast<std::size_t>(set)]; }

i64 tokens_of(const std::vector<Part>& parts) {
  i64 tokens = 0;
  for (const Part& part : parts) tokens += part.tokens();
  return tokens;
}

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

}  // namespace

void IndexedDataset::Config::describe(Schema<Config>& s) {
  s.field(
       "path",
       &Config::path,
       "prefixes of token files (PREFIX.idx, PREFIX.bin), as `tessera data build` or Megatron-LM "
       "write them, or a weight before each prefix: [\"0.3\", \"a\", \"0.7\", \"b\"]. Without "
       "weights they are read as one corpus. Identical on all ranks' machines")
      .is_path({"<number>"})
      .required()
      .megatron("--data-path")
      .also("--train-data-path", "is {} here, beside data.validation_path");
  s.field("validation_path",
          &Config::validation_path,
          "the same for the validation set, which is not split off `path` then")
      .is_path({"<number>"})
      .megatron("--valid-data-path");
  s.field("test_path", &Config::test_path, "the same for the test set")
      .is_path({"<number>"})
      .megatron("--test-data-path");
  s.field("split",
          &Config::split,
          "shares of train, validation and test in the documents of each file, which follow each "
          "other there. auto: \"98,2,0\"; all of it for training where validation_path or "
          "test_path is written. With weights, a set is empty where a file has no sample of it")
      .megatron("--split");
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
      tail_(config.validation_tail) {
  if (arguments.vocabulary > 0 && arguments.vocabulary < vocabulary_) {
    vocabulary_ = arguments.vocabulary;
    vocabulary_owner_ = "model";
  }
  if (megatron_ && arguments.seed > std::numeric_limits<u32>::max()) {
    fail_config("data.order = \"megatron\": run.seed is {}, and seeds of NumPy are below 2^32",
                arguments.seed);
  }
  check_pack(config);
  const bool own_sets = !config.validation_path.empty() || !config.test_path.empty();
  if (own_sets && config.split) {
    fail_config("data.split = {} and {}: a set is split off data.path or has files of its own",
                quote(*config.split),
                config.validation_path.empty() ? "data.test_path" : "data.validation_path");
  }
  const Prefixes prefixes = read_prefixes(config.path, "data.path");
  if (!own_sets) {
    add_split(prefixes, config.split.value_or(kSplit));
  } else {
    add(SampleSet::train, prefixes, "data.path");
    if (!config.validation_path.empty()) {
      const std::string key = "data.validation_path";
      add(SampleSet::validation, read_prefixes(config.validation_path, key), key);
    }
    if (!config.test_path.empty()) {
      const std::string key = "data.test_path";
      add(SampleSet::test, read_prefixes(config.test_path, key), key);
    }
  }
  order_text_ = config.order;
  if (packed_) order_text_ += fmt::format(", documents packed into {} tokens", length_);
  if (megatron_) {
    order_text_ += fmt::format(
        " for {} samples (run.steps · batch.global) of {} tokens", training_samples_, length_);
  }
  for (const SampleSet set : kSets) put_in_order(set, arguments);
}

std::shared_ptr<const TokenFile> IndexedDataset::open(const std::string& prefix,
                                                      const std::string& key) {
  const auto same =
      std::ranges::find_if(files_, [&](const auto& file) { return file->prefix() == prefix; });
  if (same != files_.end()) return *same;
  auto file = std::make_shared<const TokenFile>(prefix, key);
  const std::string own = tokenizer_->fingerprint();
  if (!file->tokenizer().empty() && file->tokenizer() != own) {
    fail_config("{}: {} was made with tokenizer {}, [tokenizer] is {}",
                key,
                quote(written_path(prefix)),
                file->tokenizer(),
                own);
  }
  files_.push_back(file);
  return file;
}

void IndexedDataset::add(SampleSet set, const Prefixes& prefixes, const std::string& key) {
  of(set).weights = prefixes.weights;
  for (const std::string& path : prefixes.paths) {
    Part part{open(path, key), {}, megatron_};
    const TokenIndex& index = part.file->index();
    part.items = {0, megatron_ ? index.sequences() : index.documents()};
    of(set).parts.push_back(std::move(part));
  }
  // There, one prefix for one set is no blend, whatever its weight.
  if (prefixes.paths.size() == 1) of(set).weights.clear();
}

void IndexedDataset::add_split(const Prefixes& prefixes, const std::string& text) {
  const Shares split(text, "data.split", std::size(kSets));
  for (const SampleSet set : kSets) {
    of(set).weights = prefixes.weights;
    of(set).split = true;
  }
  for (const std::string& path : prefixes.paths) {
    Part whole{open(path, "data.path"), {}, megatron_};
    const TokenIndex& index = whole.file->index();
    const auto ranges = split.of(megatron_ ? index.sequences() : index.documents());
    for (const SampleSet set : kSets) {
      const auto at = static_cast<std::size_t>(set);
      whole.items = at < ranges.size() ? ranges[at] : ItemRange{};
      of(set).parts.push_back(whole);
    }
  }
}

// That a file needs to give a sample: in the order "megatron" several epochs may make one, and a
// pack has padding.
i64 IndexedDataset::least_tokens(SampleSet set) const {
  const bool many = of(set).parts.size() > 1 && of(set).weights.empty();
  const bool epochs = megatron_ && set == SampleSet::train && training_samples_ > 0 && !many;
  if (packed_) return 2;
  return epochs ? 1 : length_ + 1;
}

// Where a set has a weight for a file, it has a sample of it.
void IndexedDataset::require_samples(SampleSet set) const {
  const auto fails = [&](const std::string& what, i64 tokens) {
    fail_config(
        "data.{}: the {} part of {} has {} tokens; one sample of sequence length {} needs {}. Give "
        "more text, a shorter sequence_length{}",
        set == SampleSet::train || of(set).split ? "path" : fmt::format("{}_path", name_of(set)),
        name_of(set),
        what,
        tokens,
        length_,
        least_tokens(set),
        of(set).split ? " or another data.split" : "");
  };
  for (const Part& part : of(set).parts) {
    if (part.tokens() < least_tokens(set) && !of(set).weights.empty()) {
      fails(quote(written_path(part.file->prefix())), part.tokens());
    }
  }
  if (set != SampleSet::train) return;
  const i64 most = std::ranges::max(of(set).parts, {}, &Part::tokens).tokens();
  if (most < least_tokens(set)) fails("each file", most);
}

void IndexedDataset::put_in_order(SampleSet set, const DatasetArguments& arguments) {
  Set& here = of(set);
  const bool train = set == SampleSet::train;
  const auto gives = [&](const Part& part) { return part.tokens() >= least_tokens(set); };
  const bool whole = std::ranges::all_of(here.parts, gives);
  // Such a set is empty: weights could not hold in it. Who wants to read it is told so.
  if (!train && here.split && !here.weights.empty() && !whole) return;
  if (!train && tokens_of(here.parts) == 0) return;
  require_samples(set);
  // A file that is too short for one sample has none; with weights it was refused.
  std::vector<Part> parts;
  std::ranges::copy_if(here.parts, std::back_inserter(parts), gives);
  if (parts.empty()) return;
  if (!megatron_) {
    here.order = epochs(set, parts, arguments);
    return;
  }
  MegatronOrder::Settings settings{.length = length_,
                                   .seed = static_cast<u32>(arguments.seed),
                                   .tail = tail_ && set == SampleSet::validation,
                                   .keep_in = arguments.keep_in};
  if (train && training_samples_ > 0) settings.samples = training_samples_;
  here.order = std::make_unique<MegatronOrder>(parts, here.weights, settings);
  if (train && here.order->size() < training_samples_) {
    fail_config(
        "data.path: without weights, order = \"megatron\" reads each file once, {} samples, and "
        "the run has {} (run.steps · batch.global); give weights or fewer steps",
        here.order->size(),
        training_samples_);
  }
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
  return std::make_unique<EpochOrder>(std::move(cuts), of(set).weights, key);
}

i64 IndexedDataset::do_size(SampleSet set) const {
  return of(set).order != nullptr ? of(set).order->size() : 0;
}

Sample IndexedDataset::find(SampleSet set, i64 ordinal) const {
  require(ordinal >= 0 && of(set).order != nullptr,
          "indexed dataset: sample {} of an empty {} set was asked for",
          ordinal,
          name_of(set));
  Sample sample;
  of(set).order->find(ordinal, sample);
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
  std::string all;
  for (const SampleSet set : kSets) {
    all += name_of(set);
    for (const Part& part : of(set).parts) {
      all += fmt::format(" {:016x} {} {}", part.file->hash(), part.items.begin, part.items.end);
    }
    for (const double weight : of(set).weights) all += fmt::format(" {}", weight);
  }
  std::string text = fmt::format("indexed {:016x}: {} tokens of {} files, order {}",
                                 hash64(all),
                                 tokens_of(of(SampleSet::train).parts),
                                 of(SampleSet::train).parts.size(),
                                 order_text_);
  if (documents_.positions) text += ", positions reset";
  if (documents_.attention) text += ", attention reset";
  if (documents_.mask_ends) text += ", ends of documents masked";
  if (tail_) text += ", with the validation set's tail";
  return text;
}

SetContent IndexedDataset::do_content(SampleSet set) const {
  SetContent content;
  for (const Part& part : of(set).parts) content.documents += part.items.size();
  content.tokens = tokens_of(of(set).parts);
  return content;
}

std::vector<const DataFile*> IndexedDataset::do_files() const {
  std::vector<const DataFile*> files;
  for (const auto& file : files_) {
    for (const DataFile* each : file->files()) files.push_back(each);
  }
  return files;
}

}  // namespace tessera
