#include "vocabulary.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "byte_alphabet.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/bounds.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

// Room for tokens by id, each taken once.
class Places {
 public:
  Places(std::string file, std::size_t tokens, std::size_t ids)
      : file_(std::move(file)), tokens_(tokens), taken_(ids, false) {}
  void take(const std::string& token, i64 id) {
    const auto at = static_cast<std::size_t>(id);
    if (at < taken_.size() && !taken_[at]) {
      taken_[at] = true;
      return;
    }
    if (tokens_ < taken_.size()) {
      fail_config("tokenizer.path: {} is damaged: two tokens have the id {}, one is \"{}\"",
                  file_,
                  id,
                  written_plain(token));
    }
    fail_config(
        "tokenizer.path: {} is damaged: the ids of its {} tokens must be 0 to {}, each once, but "
        "\"{}\" has {}",
        file_,
        tokens_,
        tokens_ - 1,
        written_plain(token),
        id);
  }

 private:
  std::string file_;
  std::size_t tokens_;
  std::vector<bool> taken_;
};

}  // namespace

Vocabulary::Vocabulary(const BpeFiles& files,
                       const std::vector<AddedToken>& added,
                       VocabularyKind kind)
    : kind_(kind) {
  take_tokens(files, added);
  take_merges(files);
}

void Vocabulary::take_tokens(const BpeFiles& files, const std::vector<AddedToken>& added) {
  const ByteAlphabet alphabet;
  std::unordered_map<std::string, i64> further;
  for (const auto& [token, id] : files.tokens) {
    ids_.emplace(token, static_cast<i32>(id));
    longest_ = std::max(longest_, token.size());
  }
  for (const AddedToken& token : added) {
    if (!ids_.contains(token.text)) further.emplace(token.text, token.id);
  }
  std::size_t count = ids_.size() + further.size();
  const std::size_t tokens = count;
  if (kind_ == VocabularyKind::as_written) {
    i64 largest = static_cast<i64>(count) - 1;
    for (const auto& [token, id] : files.tokens) largest = std::max(largest, id);
    for (const auto& [token, id] : further) largest = std::max(largest, id);
    if (largest >= kMostVocabulary) {
      fail_config("tokenizer.path: {} has a token with the id {}; the largest may be {}",
                  files.file,
                  largest,
                  kMostVocabulary - 1);
    }
    count = static_cast<std::size_t>(largest) + 1;
  }
  tokens_.resize(count);
  Places places(files.file, tokens, count);
  for (const auto& [token, id] : files.tokens) {
    places.take(token, id);
    tokens_[static_cast<std::size_t>(id)] =
        kind_ == VocabularyKind::every_byte ? alphabet.bytes(token) : token;
  }
  for (const auto& [token, id] : further) {
    places.take(token, id);
    tokens_[static_cast<std::size_t>(id)] = token;
  }
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const std::string& written = alphabet.written(static_cast<unsigned char>(byte));
    of_byte_[byte] = find(written);
    if (of_byte_[byte] >= 0 || kind_ == VocabularyKind::as_written) continue;
    fail_config(
        "tokenizer.path: {} has no token \"{}\" for the byte {:#04x}: some text could not be "
        "encoded",
        files.file,
        written,
        byte);
  }
}

void Vocabulary::take_merges(const BpeFiles& files) {
  i32 rank = 0;
  merges_ = MergeTable(files.merges.size());
  for (const BpeFiles::Merge& merge : files.merges) {
    const auto& [left, right, place] = merge;
    const i32 from = find(left), with = find(right), made = find(left + right);
    if (from < 0 || with < 0 || made < 0) {
      fail_config("tokenizer.path: {}: \"{} {}\" needs \"{}\", which is not in {}",
                  place,
                  written_plain(left),
                  written_plain(right),
                  written_plain(from < 0   ? left
                                : with < 0 ? right
                                           : left + right),
                  std::filesystem::path(files.file).filename().string());
    }
    merges_.put({from, with, {rank++, made}});  // of equal pairs the last
  }
}

u64 Vocabulary::hash() const {
  std::string tokens, merges;
  for (const std::string& token : tokens_) tokens += fmt::format("{} {}\n", token.size(), token);
  for (const auto& [left, right, merge] : merges_.ordered()) {
    const u64 pair = static_cast<u64>(static_cast<u32>(left)) << 32 | static_cast<u32>(right);
    merges += fmt::format("{} {} {}\n", pair, merge.rank, merge.id);
  }
  return hash64(merges, hash64(tokens));
}

i32 Vocabulary::find(std::string_view written) const {
  const auto found = ids_.find(written);
  return found == ids_.end() ? -1 : found->second;
}

}  // namespace tessera
