#include "tessera/io/token_file.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "sdk/src/token_types.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

const std::string& checked_prefix(const std::string& prefix, std::string_view key) {
  for (const std::string_view end : {".idx", ".bin"}) {
    if (!prefix.ends_with(end)) continue;
    fail_config(
        "{}: \"{}\": give the prefix of both files, without {}", key, written_path(prefix), end);
  }
  return prefix;
}

template <class T>
T given(const nlohmann::json& json, const char* key, const T& otherwise) {
  return json.contains(key) ? json.at(key).get<T>() : otherwise;
}

// What the report says of the tokenizer. No report is one that says nothing.
std::string tokenizer_of(const std::string& prefix, u64 index_hash) {
  const std::string path = prefix + ".report.json";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return "";
  const DataFile file(path);
  const std::string name = written_path(path);
  return reading_file(name, [&] {
    const auto json = parse_json_object<nlohmann::json>(file.text(), name);
    const std::string tied = given<std::string>(json, "index", "");
    const std::string own = token_index_name(index_hash);
    require(tied.empty() || tied == own,
            "it is the report of other files: their index is {}, this one {}; remove it, or put "
            "the files back that it came with",
            tied,
            own);
    return given<std::string>(json, "tokenizer", "");
  });
}

// Of smaller files all is soon wanted, so that the system may read ahead: from a disk, the first
// samples of an epoch took a ninth of the time.
constexpr std::size_t kSoonRead = std::size_t{256} << 20;

u64 hash_of(u64 index_hash, std::string_view data) {
  constexpr std::size_t kBlocks = 1024, kBlock = 4096;
  const std::array<u64, 2> head = {index_hash, data.size()};
  u64 hash = hash64(std::as_bytes(std::span(head)));
  if (data.size() <= kBlocks * kBlock) return hash64(data, hash);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::size_t at = (data.size() - kBlock) / (kBlocks - 1) * i;
    hash = hash64(data.substr(i + 1 < kBlocks ? at : data.size() - kBlock, kBlock), hash);
  }
  return hash;
}

// Nothing is read ahead in a file that is read at random, so several pages are asked for at once.
void fetch_ahead(std::string_view bytes) {
  constexpr std::size_t kPage = 4096, kAlone = 2 * kPage;
  if (bytes.size() <= kAlone) return;
  const std::size_t into = reinterpret_cast<std::size_t>(bytes.data()) % kPage;
  ::madvise(const_cast<char*>(bytes.data() - into), bytes.size() + into, MADV_WILLNEED);
}

}  // namespace

TokenFile::TokenFile(const std::string& prefix, std::string_view key, Access access)
    : prefix_(checked_prefix(prefix, key)),
      index_file_(prefix + ".idx", key),
      data_file_(prefix + ".bin", key),
      index_(index_file_.text(), written_path(index_file_.path())) {
  const auto bytes = static_cast<i64>(data_file_.text().size());
  require(bytes == index_.data_bytes(),
          "{} has {} bytes, its index needs {}",
          written_path(data_file_.path()),
          bytes,
          index_.data_bytes());
  const std::string_view data = data_file_.text();
  const auto advise = [&](int advice) {
    if (!data.empty()) ::madvise(const_cast<char*>(data.data()), data.size(), advice);
  };
  if (data.size() > kSoonRead) advise(MADV_RANDOM);
  const u64 index_hash = hash64(index_file_.text());
  tokenizer_ = tokenizer_of(prefix, index_hash);
  hash_ = hash_of(index_hash, data);
  if (access == Access::in_turn) advise(MADV_SEQUENTIAL);
}

std::string_view TokenFile::bytes(i64 begin, i64 count) const {
  const i64 size = token_type_size(index_.type());
  return data_file_.text().substr(static_cast<std::size_t>(begin * size),
                                  static_cast<std::size_t>(count * size));
}

void TokenFile::copy(i64 begin, i64 count, i64* out) const {
  const std::string_view ids = bytes(begin, count);
  fetch_ahead(ids);
  const char* from = ids.data();
  with_token_type(index_.type(), [&]<class T>(T) {
    for (i64 i = 0; i < count; ++i) {
      T id;
      std::memcpy(&id, from + i * static_cast<i64>(sizeof(T)), sizeof(T));
      if constexpr (std::is_floating_point_v<T>) {
        constexpr T kMost = 9'007'199'254'740'992;  // 2^53: whole numbers up to here are exact
        require(std::trunc(id) == id && std::abs(id) <= kMost,
                "{}: token {} is {}, no whole number",
                written_path(data_file_.path()),
                begin + i,
                id);
      }
      out[i] = static_cast<i64>(id);
    }
  });
}

}  // namespace tessera
