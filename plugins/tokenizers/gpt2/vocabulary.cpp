#include "vocabulary.hpp"

#include <filesystem>
#include <map>
#include <utility>

#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/utf8.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

// The 256 characters for the bytes: printable ones of Latin-1 stand for themselves, all others are
// 256, 257, … in the order of the bytes.
std::array<u32, 256> byte_characters() {
  std::array<u32, 256> characters{};
  u32 next = 256;
  for (u32 byte = 0; byte < 256; ++byte) {
    const bool itself =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
    characters[byte] = itself ? byte : next++;
  }
  return characters;
}

std::string utf8(u32 character) {
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
}

// Turns what the file writes into bytes. A token with another character, which somebody added,
// stands for itself.
class Alphabet {
 public:
  Alphabet() {
    const std::array<u32, 256> characters = byte_characters();
    for (std::size_t byte = 0; byte < 256; ++byte) {
      written_[byte] = utf8(characters[byte]);
      bytes_[written_[byte]] = static_cast<char>(byte);
    }
  }
  const std::string& written(std::size_t byte) const { return written_[byte]; }
  std::string bytes(const std::string& written) const {
    std::string bytes;
    for (std::size_t at = 0; at < written.size();) {
      const std::size_t length = character_length(std::string_view(written).substr(at));
      const auto found = bytes_.find(written.substr(at, length));
      if (length == 0 || found == bytes_.end()) return written;
      bytes += found->second;
      at += length;
    }
    return bytes;
  }

 private:
  std::array<std::string, 256> written_;
  std::unordered_map<std::string, char> bytes_;
};

u64 key(i32 left, i32 right) {
  return static_cast<u64>(static_cast<u32>(left)) << 32 | static_cast<u32>(right);
}

}  // namespace

Vocabulary::Vocabulary(const BpeFiles& files, const std::vector<AddedToken>& added) {
  take_tokens(files, added);
  take_merges(files);
}

void Vocabulary::take_tokens(const BpeFiles& files, const std::vector<AddedToken>& added) {
  const Alphabet alphabet;
  std::unordered_map<std::string, i64> further;
  for (const auto& [token, id] : files.tokens) ids_.emplace(token, static_cast<i32>(id));
  for (const AddedToken& token : added) {
    if (!ids_.contains(token.text)) further.emplace(token.text, token.id);
  }
  const std::size_t count = ids_.size() + further.size();
  bytes_.resize(count);
  std::vector<bool> taken(count, false);
  const auto take = [&](const std::string& token, i64 id, std::string bytes) {
    const auto at = static_cast<std::size_t>(id);
    if (at >= count || taken[at]) {
      fail_config(
          "tokenizer.path: {} is damaged: the ids of its {} tokens must be 0 to {}, each once, but "
          "\"{}\" has {}",
          files.file,
          count,
          count - 1,
          written_plain(token),
          id);
    }
    taken[at] = true;
    bytes_[at] = std::move(bytes);
  };
  for (const auto& [token, id] : files.tokens) take(token, id, alphabet.bytes(token));
  for (const auto& [token, id] : further) {
    take(token, id, token);
    ids_.emplace(token, static_cast<i32>(id));
  }
  for (std::size_t byte = 0; byte < 256; ++byte) {
    of_byte_[byte] = find(alphabet.written(byte));
    if (of_byte_[byte] >= 0) continue;
    fail_config(
        "tokenizer.path: {} has no token \"{}\" for the byte {:#04x}: some text could not be "
        "encoded",
        files.file,
        alphabet.written(byte),
        byte);
  }
}

void Vocabulary::take_merges(const BpeFiles& files) {
  i32 rank = 0;
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
    merges_.try_emplace(key(from, with), Merge{rank++, made});
  }
}

u64 Vocabulary::hash() const {
  std::string tokens, merges;
  for (const std::string& bytes : bytes_) tokens += fmt::format("{} {}\n", bytes.size(), bytes);
  const std::map<u64, Merge> ordered(merges_.begin(), merges_.end());
  for (const auto& [pair, merge] : ordered) {
    merges += fmt::format("{} {} {}\n", pair, merge.rank, merge.id);
  }
  return hash64(merges, hash64(tokens));
}

i32 Vocabulary::find(const std::string& written) const {
  const auto found = ids_.find(written);
  return found == ids_.end() ? -1 : found->second;
}

const Vocabulary::Merge* Vocabulary::merge(i32 left, i32 right) const {
  const auto found = merges_.find(key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

}  // namespace tessera
