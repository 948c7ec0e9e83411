#include "vocabulary.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "tessera/error.hpp"
#include "tessera/hash.hpp"
#include "tessera/utf8.hpp"
#include "tessera/written.hpp"

namespace tessera {

namespace {

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    fail_config("tokenizer.path: {} is no file; a folder with vocab.json and merges.txt is wanted",
                path.string());
  }
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in)
    fail_config("tokenizer.path: cannot read {}: {}", written_path(path), std::strerror(errno));
  return text;
}

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

// From what the file writes to bytes. A token with another character, which somebody added, stands
// for itself.
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

Vocabulary::Vocabulary(const std::filesystem::path& folder) {
  read_tokens(folder / "vocab.json");
  read_merges(folder / "merges.txt");
}

void Vocabulary::read_tokens(const std::filesystem::path& file) {
  const auto json = nlohmann::json::parse(read_file(file), nullptr, false);
  if (!json.is_object() || json.empty()) {
    fail_config("tokenizer.path: {} is damaged: it is no JSON object of tokens and ids",
                file.string());
  }
  const Alphabet alphabet;
  bytes_.resize(json.size());
  std::vector<bool> taken(json.size(), false);
  for (const auto& [token, id] : json.items()) {
    const bool sound = id.is_number_unsigned() && id.get<u64>() < json.size();
    if (!sound || taken[id.get<std::size_t>()]) {
      fail_config(
          "tokenizer.path: {} is damaged: the ids of its {} tokens must be 0 to {}, each once, but "
          "\"{}\" "
          "has {}",
          file.string(),
          json.size(),
          json.size() - 1,
          token,
          id.dump());
    }
    const auto at = id.get<std::size_t>();
    taken[at] = true;
    bytes_[at] = alphabet.bytes(token);
    ids_.emplace(token, static_cast<i32>(at));
  }
  for (std::size_t byte = 0; byte < 256; ++byte) {
    of_byte_[byte] = find(alphabet.written(byte));
    if (of_byte_[byte] >= 0) continue;
    fail_config(
        "tokenizer.path: {} has no token \"{}\" for the byte {:#04x}: some text could not be "
        "encoded",
        file.string(),
        alphabet.written(byte),
        byte);
  }
}

void Vocabulary::read_merges(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  i64 number = 0;
  i32 rank = 0;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    const bool heading = ++number == 1 && line.starts_with("#version");
    if (heading || line.empty()) continue;
    const std::size_t space = line.find(' ');
    const auto refuse = [&](const std::string& why) {
      fail_config("tokenizer.path: {}:{}: \"{}\" {}", file.string(), number, line, why);
    };
    if (space == line.npos || space == 0 || space + 1 == line.size() ||
        line.find(' ', space + 1) != line.npos) {
      refuse("is not two tokens with a space between them");
    }
    const std::string left = line.substr(0, space), right = line.substr(space + 1);
    const i32 from = find(left), with = find(right), made = find(left + right);
    if (from < 0 || with < 0 || made < 0) {
      refuse(fmt::format("needs \"{}\", which is not in vocab.json",
                         from < 0   ? left
                         : with < 0 ? right
                                    : left + right));
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
