#include "token_sets.hpp"

#include <algorithm>
#include <iterator>

#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

constexpr const char* kSplit = "98,2,0";

i64 tokens_of(const std::vector<Part>& parts) {
  i64 tokens = 0;
  for (const Part& part : parts) tokens += part.tokens();
  return tokens;
}

}  // namespace

const char* name_of(SampleSet set) {
  constexpr const char* kNames[] = {"training", "validation", "test"};
  return kNames[static_cast<std::size_t>(set)];
}

TokenSets::TokenSets(const TokenSetKeys& keys, const Tokenizer& tokenizer, bool sequences)
    : sequences_(sequences) {
  const bool own_sets = !keys.validation_path.empty() || !keys.test_path.empty();
  if (own_sets && keys.split) {
    fail_config("data.split = {} and {}: a set is split off data.path or has files of its own",
                quote(*keys.split),
                keys.validation_path.empty() ? "data.test_path" : "data.validation_path");
  }
  if (!own_sets) {
    add_split(keys, tokenizer);
    return;
  }
  add(SampleSet::train, keys.path, "data.path", tokenizer);
  if (!keys.validation_path.empty()) {
    add(SampleSet::validation, keys.validation_path, "data.validation_path", tokenizer);
  }
  if (!keys.test_path.empty()) add(SampleSet::test, keys.test_path, "data.test_path", tokenizer);
}

std::shared_ptr<const TokenFile> TokenSets::open(const std::string& prefix,
                                                 const std::string& key,
                                                 const Tokenizer& tokenizer) {
  const auto same =
      std::ranges::find_if(files_, [&](const auto& file) { return file->prefix() == prefix; });
  if (same != files_.end()) return *same;
  auto file = std::make_shared<const TokenFile>(prefix, key);
  const std::string own = tokenizer.fingerprint();
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

i64 TokenSets::items_of(const TokenFile& file) const {
  return sequences_ ? file.index().sequences() : file.index().documents();
}

void TokenSets::add(SampleSet set,
                    const std::vector<std::string>& paths,
                    const std::string& key,
                    const Tokenizer& tokenizer) {
  const Prefixes prefixes = read_prefixes(paths, key);
  Set& here = mutable_of(set);
  here.weights = prefixes.weights;
  here.key = key;
  for (const std::string& path : prefixes.paths) {
    Part part{open(path, key, tokenizer), {}, sequences_};
    part.items = {0, items_of(*part.file)};
    here.parts.push_back(std::move(part));
  }
  // There, one prefix for one set is no blend, whatever its weight.
  if (prefixes.paths.size() == 1) here.weights.clear();
}

void TokenSets::add_split(const TokenSetKeys& keys, const Tokenizer& tokenizer) {
  const Prefixes prefixes = read_prefixes(keys.path, "data.path");
  const Shares split(keys.split.value_or(kSplit), "data.split", std::size(kSets));
  for (const SampleSet set : kSets) {
    mutable_of(set).weights = prefixes.weights;
    mutable_of(set).split = true;
    mutable_of(set).key = "data.path";
  }
  for (const std::string& path : prefixes.paths) {
    Part whole{open(path, "data.path", tokenizer), {}, sequences_};
    const auto ranges = split.of(items_of(*whole.file));
    for (const SampleSet set : kSets) {
      const auto at = static_cast<std::size_t>(set);
      whole.items = at < ranges.size() ? ranges[at] : ItemRange{};
      mutable_of(set).parts.push_back(whole);
    }
  }
}

std::vector<Part> TokenSets::giving(SampleSet set,
                                    const std::function<bool(const Part&)>& gives,
                                    const std::function<void(const Part*)>& lacks) const {
  const Set& here = of(set);
  const bool train = set == SampleSet::train;
  std::vector<Part> parts;
  std::ranges::copy_if(here.parts, std::back_inserter(parts), gives);
  const bool whole = parts.size() == here.parts.size();
  // Such a set is empty: weights could not hold in it. Who wants to read it is told so.
  if (!train && here.split && !here.weights.empty() && !whole) return {};
  if (!train && tokens_of(here.parts) == 0) return {};
  for (const Part& part : here.parts) {
    if (!here.weights.empty() && !gives(part)) lacks(&part);
  }
  if (train && parts.empty()) lacks(nullptr);
  return parts;
}

std::string TokenSets::identity() const {
  std::string all;
  for (const SampleSet set : kSets) {
    all += name_of(set);
    for (const Part& part : of(set).parts) {
      all += fmt::format(" {:016x} {} {}", part.file->hash(), part.items.begin, part.items.end);
    }
    for (const double weight : of(set).weights) all += fmt::format(" {}", weight);
  }
  const std::vector<Part>& train = of(SampleSet::train).parts;
  return fmt::format("{:016x}: {} tokens of {} files", hash64(all), tokens_of(train), train.size());
}

SetContent TokenSets::content(SampleSet set) const {
  SetContent content;
  for (const Part& part : of(set).parts) content.documents += part.items.size();
  content.tokens = tokens_of(of(set).parts);
  return content;
}

std::vector<const DataFile*> TokenSets::files() const {
  std::vector<const DataFile*> files;
  for (const auto& file : files_) {
    for (const DataFile* each : file->files()) files.push_back(each);
  }
  return files;
}

}  // namespace tessera
