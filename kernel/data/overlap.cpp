#include "kernel/data/overlap.hpp"

#include <unordered_map>

#include "kernel/data/corpus_reader.hpp"
#include "tessera/error.hpp"
#include "tessera/io/words.hpp"

namespace tessera {

namespace {

template <class F>
void each_run(std::string_view text, i64 words, F&& use) {
  const std::vector<TextWord> all = words_of(text);
  for (i64 i = 0; i + words <= static_cast<i64>(all.size()); ++i) use(hash_words(all, i, words));
}

}  // namespace

OverlapShare overlap_share(const std::vector<std::string>& test,
                           const std::vector<std::string>& train,
                           i64 words,
                           const JsonFields& fields) {
  OverlapShare share;
  std::unordered_map<u64, i64> open;  // runs that were not found yet, and how often they occur
  read_corpus(test, fields, [&](std::string_view text) {
    each_run(text, words, [&](u64 run) {
      ++open[run];
      ++share.runs;
    });
  });
  if (share.runs == 0) fail_config("--test: no text in it has {} words", words);
  share.distinct = static_cast<i64>(open.size());
  read_corpus(train, fields, [&](std::string_view text) {
    each_run(text, words, [&](u64 run) {
      const auto at = open.find(run);
      if (at == open.end()) return;
      share.found += at->second;
      ++share.distinct_found;
      open.erase(at);
    });
  });
  return share;
}

}  // namespace tessera
