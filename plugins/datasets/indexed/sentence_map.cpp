#include "sentence_map.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "arrays.hpp"
#include "philox_words.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr std::string_view kMapName = "bertmap1";

using Runs = std::vector<SentenceRun>;

// One in so many samples is short; 0: none.
i64 short_ratio(double share) { return share > 0 ? static_cast<i64>(std::round(1.0 / share)) : 0; }

template <class Words>
class Targets {
 public:
  Targets(const SentenceRequest& request, Words words)
      : longest_(request.longest), ratio_(short_ratio(request.short_share)), words_(words) {}
  u32 next() {
    if (ratio_ == 0) return static_cast<u32>(longest_);
    const auto word = static_cast<i64>(words_());
    return static_cast<u32>(word % ratio_ == 0 ? 2 + word % (longest_ - 1) : longest_);
  }

 private:
  i64 longest_, ratio_;
  Words words_;
};

// A run ends where it has its tokens, unless one sentence of the document would be left alone.
template <class Words>
void add_document(
    const TokenIndex& index, i64 document, i64 least, Targets<Words>& targets, Runs& runs) {
  if (use_of(index, document, least) != DocumentUse::used) return;
  const i64 end = index.first_sequence(document + 1);
  i64 first = index.first_sequence(document), tokens = 0;
  u32 target = targets.next();
  for (i64 at = first; at < end; ++at) {
    tokens += index.length(at);
    const i64 left = end - at - 1, count = at + 1 - first;
    if (left > 0 && (tokens < target || left < 2 || count < least)) continue;
    runs.push_back({first, static_cast<u32>(count), target});
    first = at + 1;
    tokens = 0;
    target = targets.next();
  }
}

template <class Words>
Runs runs_of(const Part& part, const SentenceRequest& request, Words words) {
  Targets<Words> targets(request, words);
  Runs runs;
  do {
    for (i64 i = part.items.begin; i < part.items.end; ++i) {
      add_document(part.file->index(), i, request.least, targets, runs);
    }
    require(!runs.empty(), "a part without enough sentences of a document has no samples");
  } while (request.samples && static_cast<i64>(runs.size()) < *request.samples);
  return runs;
}

void shuffle(Runs& runs, u64 seed) {
  std::mt19937_64 words(seed);
  for (std::size_t i = runs.size(); i-- > 1;) std::swap(runs[i], runs[words() % (i + 1)]);
}

}  // namespace

DocumentUse use_of(const TokenIndex& index, i64 document, i64 least) {
  const i64 begin = index.first_sequence(document), end = index.first_sequence(document + 1);
  if (end - begin < least) return DocumentUse::too_few;
  if (end - begin == 1) return DocumentUse::used;
  for (i64 i = begin; i < end; ++i) {
    if (index.length(i) > SentenceMap::kLongSentence) return DocumentUse::too_long;
  }
  return DocumentUse::used;
}

std::string build_sentence_map(const Part& part, const SentenceRequest& request) {
  Runs runs;
  if (request.megatron) {
    runs = runs_of(part, request, std::mt19937(static_cast<u32>(request.seed)));
    shuffle(runs, request.seed + 1);
  } else {
    runs = runs_of(part, request, PhiloxWords(random_key(request.seed, "data.sentences"), 0));
  }
  return join_arrays(kMapName, runs);
}

SentenceMap::SentenceMap(std::string_view bytes) {
  require(
      view_arrays(bytes, kMapName, runs_), "{} bytes that are no map of sentences", bytes.size());
}

}  // namespace tessera
