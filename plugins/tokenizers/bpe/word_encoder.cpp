#include "word_encoder.hpp"

#include "word_pieces.hpp"

namespace tessera {

namespace {

// Words that are kept: with their tokens some 12 MiB. A text in one language has fewer. Longer ones
// than the table takes hardly come again.
constexpr std::size_t kMost = 1 << 17;

}  // namespace

void WordEncoder::make(std::string_view word, std::vector<i32>& ids) {
  if (rules_.whole_words) {
    const i32 id =
        rules_.bytes ? vocabulary_.find(alphabet_.written(word)) : vocabulary_.find(word);
    if (id >= 0) return ids.push_back(id);
  }
  if (rules_.pieces) {
    return append_pieces(
        word, vocabulary_, *rules_.pieces, vocabulary_.longest(), rules_.unknown, ids);
  }
  first_symbols_.find(word, symbols_);
  merger_.merge(symbols_, ids);
}

void WordEncoder::encode(std::string_view word, std::vector<i32>& ids) {
  if (word.empty() || word.size() > WordTable::kLongest) return make(word, ids);
  if (known_.size() >= kMost) {
    known_.clear();
    kept_.clear();
  }
  WordTable::Tokens& tokens = known_.find(word);
  if (tokens.count == 0) {  // it is new, or has no tokens
    const std::size_t begin = kept_.size();
    make(word, kept_);
    tokens = {static_cast<u32>(kept_.size() - begin), static_cast<u32>(begin)};
    if (tokens.count == 1) {
      tokens.at = static_cast<u32>(kept_.back());
      kept_.pop_back();
    }
  }
  if (tokens.count == 1) return ids.push_back(static_cast<i32>(tokens.at));
  const auto begin = kept_.begin() + tokens.at;
  ids.insert(ids.end(), begin, begin + tokens.count);
}

}  // namespace tessera
