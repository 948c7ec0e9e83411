#include "word_encoder.hpp"

namespace tessera {

namespace {

constexpr std::size_t kLongest = 32;  // longer words hardly come again
constexpr std::size_t kBlock = 1 << 12;
// Words that are kept: with their tokens some 20 MiB. A text in one language has fewer.
constexpr std::size_t kMost = 1 << 17;

}  // namespace

void WordEncoder::make(std::string_view word, std::vector<i32>& ids) {
  if (rules_.whole_words) {
    const i32 id =
        rules_.bytes ? vocabulary_.find(alphabet_.written(word)) : vocabulary_.find(word);
    if (id >= 0) return ids.push_back(id);
  }
  first_symbols_.find(word, symbols_);
  merger_.merge(symbols_, ids);
}

// A copy that stays where it is: a block never grows beyond what it has reserved.
std::string_view WordEncoder::keep(std::string_view word) {
  if (words_.empty() || words_.back().capacity() - words_.back().size() < word.size()) {
    words_.emplace_back().reserve(kBlock);
  }
  std::string& block = words_.back();
  const std::size_t begin = block.size();
  block += word;
  return std::string_view(block).substr(begin);
}

void WordEncoder::forget() {
  known_.clear();
  kept_.clear();
  words_.clear();
}

void WordEncoder::encode(std::string_view word, std::vector<i32>& ids) {
  if (word.size() > kLongest) return make(word, ids);
  if (known_.size() >= kMost) forget();
  auto known = words_stay_ ? known_.try_emplace(word).first : known_.find(word);
  if (known == known_.end()) known = known_.try_emplace(keep(word)).first;
  auto& [begin, end] = known->second;
  if (end == 0) {  // it is new, or has no tokens
    begin = kept_.size();
    make(word, kept_);
    end = kept_.size();
  }
  ids.insert(
      ids.end(), kept_.begin() + static_cast<i64>(begin), kept_.begin() + static_cast<i64>(end));
}

}  // namespace tessera
