#include "kernel/data/chunk_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "kernel/system/read_at.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/device/descriptor.hpp"
#include "tessera/error.hpp"
#include "tessera/io/output_file.hpp"

namespace tessera {
namespace {

constexpr u64 kChunkMagic = 0x324B4E4843535354;  // "TSSCHNK2"
constexpr std::size_t kParts = 8;

template <class T>
std::span<const std::byte> bytes_of(const T& list) {
  return std::as_bytes(std::span(list.data(), list.size()));
}
template <class T>
std::span<std::byte> writable(T& list) {
  return std::as_writable_bytes(std::span(list.data(), list.size()));
}

// Reads all of `to` from a place of the file; false where that fails or it ends before.
bool read_all(int file, std::span<std::byte> to, u64 at) {
  return read_at(file, to, at) == static_cast<ssize_t>(to.size());
}

Descriptor opened(const std::filesystem::path& file) {
  return Descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
}

void unpack_tokens(std::span<const std::byte> bytes, bool wide, std::vector<i32>& out) {
  if (wide) {
    out.resize(bytes.size() / sizeof(i32));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return;
  }
  out.resize(bytes.size() / sizeof(std::uint16_t));
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t id = 0;
    std::memcpy(&id, bytes.data() + i * sizeof id, sizeof id);
    out[i] = id;
  }
}

}  // namespace

struct Chunk::Header {
  u64 magic = kChunkMagic;
  u64 source = 0, content = 0;
  u64 wide = 0;
  TextAmount amount;
  std::array<u64, kParts> bytes{};  // of the parts, which follow one another
};

// Where the parts of a file are.
class Chunk::Parts {
 public:
  enum Which { rows, texts, ids, tokens, sketches, counts, removed, lengths };

  explicit Parts(const std::filesystem::path& file) : name_(file), file_(opened(file)) {
    if (!file_ || !read_all(file_.get(), std::as_writable_bytes(std::span(&header, 1)), 0)) gone();
  }
  void read(Which which, u64 begin, std::span<std::byte> to) const {
    u64 at = sizeof(Header) + begin;
    for (std::size_t i = 0; i < static_cast<std::size_t>(which); ++i) at += header.bytes[i];
    if (!read_all(file_.get(), to, at)) gone();
  }
  std::pair<Row, Row> around(i64 document) const {
    std::array<Row, 2> found{};
    const bool first = document == 0;
    read(rows,
         first ? 0 : (static_cast<u64>(document) - 1) * sizeof(Row),
         std::as_writable_bytes(std::span(found).subspan(first ? 1 : 0)));
    return {found[0], found[1]};
  }
  std::string text(Which which, u64 begin, u64 end) const {
    std::string out(end - begin, '\0');
    read(which, begin, writable(out));
    return out;
  }
  Header header;

 private:
  [[noreturn]] void gone() const {
    fail("{} was removed or changed while the build runs", name_.string());
  }
  std::filesystem::path name_;
  Descriptor file_;
};

void Chunk::add(std::string_view id,
                std::string_view text,
                const DocumentTokens& tokens,
                std::span<const std::byte> sketch) {
  ids_ += id;
  texts_ += text;
  if (wide_) {
    const auto bytes = bytes_of(tokens.ids);
    tokens_.insert(tokens_.end(), bytes.begin(), bytes.end());
  } else {
    std::size_t at = tokens_.size();
    tokens_.resize(at + tokens.ids.size() * sizeof(std::uint16_t));
    for (const i32 token : tokens.ids) {
      const auto id_of_two = static_cast<std::uint16_t>(token);
      std::memcpy(tokens_.data() + at, &id_of_two, sizeof id_of_two);
      at += sizeof id_of_two;
    }
  }
  sketches_.insert(sketches_.end(), sketch.begin(), sketch.end());
  lengths_.insert(lengths_.end(), tokens.lengths.begin(), tokens.lengths.end());
  rows_.push_back({ids_.size(), texts_.size(), tokens_.size(), lengths_.size()});
}

std::string_view Chunk::id(i64 document) const {
  const u64 begin = row_before(document).id_end;
  return std::string_view(ids_).substr(begin, row(document).id_end - begin);
}

std::string_view Chunk::text(i64 document) const {
  const u64 begin = row_before(document).text_end;
  return std::string_view(texts_).substr(begin, row(document).text_end - begin);
}

void Chunk::tokens(i64 document, DocumentTokens& out) const {
  const Row before = row_before(document), here = row(document);
  const auto ids = std::span(tokens_).subspan(before.token_end, here.token_end - before.token_end);
  unpack_tokens(ids, wide_, out.ids);
  out.lengths.assign(lengths_.begin() + static_cast<std::ptrdiff_t>(before.length_end),
                     lengths_.begin() + static_cast<std::ptrdiff_t>(here.length_end));
}

u64 Chunk::save(const std::filesystem::path& file, u64 source) const {
  const std::array<std::span<const std::byte>, kParts> parts = {bytes_of(rows_),
                                                                bytes_of(texts_),
                                                                bytes_of(ids_),
                                                                bytes_of(tokens_),
                                                                bytes_of(sketches_),
                                                                bytes_of(counts),
                                                                bytes_of(removed),
                                                                bytes_of(lengths_)};
  Header header;
  header.source = source;
  header.wide = wide_ ? 1 : 0;
  header.amount = amount;
  for (std::size_t i = 0; i < kParts; ++i) {
    header.bytes[i] = parts[i].size();
    header.content = hash64(parts[i], header.content);
  }
  const std::filesystem::path partial = file.string() + ".partial";
  {
    OutputFile out(partial);
    out.write(std::as_bytes(std::span(&header, 1)));
    for (const auto part : parts) out.write(part);
  }
  std::error_code error;
  std::filesystem::rename(partial, file, error);
  if (error) fail("cannot rename {}: {}", partial.string(), SystemError(error));
  return header.content;
}

std::optional<Chunk::Loaded> Chunk::load(const std::filesystem::path& file, u64 source) {
  return load_if(file, source);
}

Chunk::Loaded Chunk::read(const std::filesystem::path& file) {
  auto loaded = load_if(file, std::nullopt);
  require(loaded.has_value(), "{} was removed or changed while the build runs", file.string());
  return std::move(*loaded);
}

std::optional<Chunk::Loaded> Chunk::load_if(const std::filesystem::path& file,
                                            const std::optional<u64>& source) {
  const Descriptor from = opened(file);
  struct stat status {};
  Header header;
  if (!from || ::fstat(from.get(), &status) != 0 ||
      !read_all(from.get(), std::as_writable_bytes(std::span(&header, 1)), 0) ||
      header.magic != kChunkMagic || (source && header.source != *source)) {
    return std::nullopt;
  }
  const u64 size = static_cast<u64>(status.st_size);
  u64 needed = sizeof header;
  for (const u64 bytes : header.bytes) {
    if (bytes > size) return std::nullopt;
    needed += bytes;
  }
  if (needed != size || header.bytes[0] % sizeof(Row) != 0 ||
      header.bytes[5] % sizeof(StageCounts) != 0 || header.bytes[7] % sizeof(u32) != 0) {
    return std::nullopt;
  }
  Loaded out{Chunk(header.wide != 0), header.content};
  Chunk& chunk = out.chunk;
  chunk.amount = header.amount;
  chunk.rows_.resize(header.bytes[0] / sizeof(Row));
  chunk.texts_.resize(header.bytes[1]);
  chunk.ids_.resize(header.bytes[2]);
  chunk.tokens_.resize(header.bytes[3]);
  chunk.sketches_.resize(header.bytes[4]);
  chunk.counts.resize(header.bytes[5] / sizeof(StageCounts));
  chunk.removed.resize(header.bytes[6]);
  chunk.lengths_.resize(header.bytes[7] / sizeof(u32));
  u64 at = sizeof header, content = 0;
  for (const std::span<std::byte> part : {writable(chunk.rows_),
                                          writable(chunk.texts_),
                                          writable(chunk.ids_),
                                          writable(chunk.tokens_),
                                          writable(chunk.sketches_),
                                          writable(chunk.counts),
                                          writable(chunk.removed),
                                          writable(chunk.lengths_)}) {
    if (!read_all(from.get(), part, at)) return std::nullopt;
    at += part.size();
    content = hash64(part, content);
  }
  if (content != header.content) return std::nullopt;
  return out;
}

std::string Chunk::read_text(const std::filesystem::path& file, i64 document) {
  const Parts parts(file);
  const auto [before, here] = parts.around(document);
  return parts.text(Parts::texts, before.text_end, here.text_end);
}

std::string Chunk::read_id(const std::filesystem::path& file, i64 document) {
  const Parts parts(file);
  const auto [before, here] = parts.around(document);
  return parts.text(Parts::ids, before.id_end, here.id_end);
}

void Chunk::read_tokens(const std::filesystem::path& file, i64 document, DocumentTokens& tokens) {
  const Parts parts(file);
  const auto [before, here] = parts.around(document);
  std::vector<std::byte> bytes(here.token_end - before.token_end);
  parts.read(Parts::tokens, before.token_end, bytes);
  unpack_tokens(bytes, parts.header.wide != 0, tokens.ids);
  tokens.lengths.resize(here.length_end - before.length_end);
  parts.read(Parts::lengths, before.length_end * sizeof(u32), writable(tokens.lengths));
}

}  // namespace tessera
