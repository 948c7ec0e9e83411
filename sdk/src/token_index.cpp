#include "tessera/io/token_index.hpp"

#include <bit>
#include <cstring>
#include <iterator>

#include "sdk/src/token_layout.hpp"
#include "tessera/error.hpp"

namespace tessera {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

namespace {

struct TypeInfo {
  std::string_view name;
  i64 size;
};
constexpr TypeInfo kTypes[] = {
    {"u8", 1}, {"i8", 1}, {"i16", 2}, {"i32", 4}, {"i64", 8}, {"f64", 8}, {"f32", 4}, {"u16", 2}};
constexpr i64 kTypeCount = std::size(kTypes);
constexpr i64 kMostBytes = i64{1} << 60;  // of PREFIX.bin; sums of lengths stay far from the bound

const TypeInfo& info(TokenType type) { return kTypes[static_cast<std::size_t>(type) - 1]; }

template <class T>
T value_at(const char* from, i64 index) {
  T value;  // nothing in the file is aligned
  std::memcpy(&value, from + index * static_cast<i64>(sizeof(T)), sizeof(T));
  return value;
}

// The last i of [0, n) with begin(i) <= token. Only it has tokens among those that begin there.
template <class F>
i64 last_from(i64 n, i64 token, const F& begin) {
  i64 low = 0, high = n;
  while (high - low > 1) {
    const i64 middle = low + (high - low) / 2;
    (begin(middle) <= token ? low : high) = middle;
  }
  return low;
}

}  // namespace

i64 token_type_size(TokenType type) { return info(type).size; }
std::string_view token_type_name(TokenType type) { return info(type).name; }

TokenType token_type_for(i64 vocabulary) {
  constexpr i64 kSmall = 65'500;
  return vocabulary < kSmall ? TokenType::u16 : TokenType::i32;
}

TokenIndex::TokenIndex(std::string_view bytes, const std::string& name) {
  using namespace token_layout;
  const i64 size = static_cast<i64>(bytes.size());
  require(size >= kHeader, "{} has {} bytes, the head of an index has {}", name, size, kHeader);
  require(bytes.starts_with(kMagic), "{}: byte 0: no index of tokens (MMIDIDX)", name);
  const auto version = value_at<u64>(bytes.data() + kVersionAt, 0);
  require(version == kVersion,
          "{}: byte {}: version {}, known is {}",
          name,
          kVersionAt,
          version,
          kVersion);
  const auto type = static_cast<u8>(bytes[kTypeAt]);
  require(type >= 1 && type <= kTypeCount,
          "{}: byte {}: type of tokens {}, known are 1 to {}",
          name,
          kTypeAt,
          type,
          kTypeCount);
  type_ = static_cast<TokenType>(type);
  shift_ = std::countr_zero(static_cast<u64>(token_type_size(type_)));

  const auto sequences = value_at<u64>(bytes.data() + kSequencesAt, 0);
  const auto bounds = value_at<u64>(bytes.data() + kBoundsAt, 0);
  const auto most = static_cast<u64>(size);  // no count is near what would overflow below
  require(sequences <= most && bounds <= most && bounds > 0,
          "{}: byte {}: {} sequences and {} bounds of documents in {} bytes",
          name,
          kSequencesAt,
          sequences,
          bounds,
          size);
  sequences_ = static_cast<i64>(sequences);
  documents_ = static_cast<i64>(bounds) - 1;
  const i64 needs = bytes_of(sequences_, documents_);
  require(size == needs || size == needs + sequences_,
          "{} has {} bytes, its {} sequences and {} documents need {}, or {} with modes",
          name,
          size,
          sequences_,
          documents_,
          needs,
          needs + sequences_);
  lengths_ = bytes.data() + kHeader;
  places_ = lengths_ + 4 * sequences_;
  firsts_ = places_ + 8 * sequences_;
  if (size > needs) modes_ = bytes.data() + needs;

  i64 end = 0;  // of the sequences so far, in PREFIX.bin
  for (i64 i = 0; i < sequences_; ++i) {
    const i64 has = length(i);
    require(has >= 0 && has <= kMostBytes - end,
            "{}: byte {}: sequence {} has {} tokens",
            name,
            lengths_ + 4 * i - bytes.data(),
            i,
            has);
    const auto place = value_at<i64>(places_, i);
    require(place == end,
            "{}: byte {}: sequence {} begins at byte {}, the one before it ends at {}",
            name,
            places_ + 8 * i - bytes.data(),
            i,
            place,
            end);
    end += has << shift_;
  }
  tokens_ = end >> shift_;
  check_documents(bytes.data(), name);
}

void TokenIndex::check_documents(const char* begin, const std::string& name) const {
  for (i64 i = 0; i <= documents_; ++i) {
    const i64 first = first_sequence(i), least = i > 0 ? first_sequence(i - 1) : 0;
    const i64 most = i > 0 ? sequences_ : 0;
    require(first >= least && first <= most,
            "{}: byte {}: bound {} of the documents is sequence {}, not one of {} to {}",
            name,
            firsts_ + 8 * i - begin,
            i,
            first,
            least,
            most);
  }
  require(first_sequence(documents_) == sequences_,
          "{}: byte {}: the last document ends at sequence {} of {}",
          name,
          firsts_ + 8 * documents_ - begin,
          first_sequence(documents_),
          sequences_);
}

i64 TokenIndex::length(i64 sequence) const { return value_at<i32>(lengths_, sequence); }

i64 TokenIndex::begin(i64 sequence) const {
  return sequence < sequences_ ? value_at<i64>(places_, sequence) >> shift_ : tokens_;
}

std::optional<i32> TokenIndex::mode(i64 sequence) const {
  if (modes_ == nullptr) return {};
  return value_at<signed char>(modes_, sequence);
}

i64 TokenIndex::first_sequence(i64 document) const { return value_at<i64>(firsts_, document); }

i64 TokenIndex::sequence_at(i64 token) const {
  return last_from(sequences_, token, [this](i64 i) { return begin(i); });
}

i64 TokenIndex::document_at(i64 token) const {
  return last_from(documents_, token, [this](i64 i) { return document_begin(i); });
}

}  // namespace tessera
