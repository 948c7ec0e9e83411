#include "kernel/data/chunk_set.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

std::filesystem::path ChunkSet::file(i64 chunk) const {
  return folder_ / fmt::format("{}-{}", name_, chunk);
}

void ChunkSet::append(i64 documents) { first_.push_back(first_.back() + documents); }

void ChunkSet::append_sketches(std::span<const std::byte> sketches, i64 bytes_each) {
  sketch_bytes_ = bytes_each;
  sketches_.insert(sketches_.end(), sketches.begin(), sketches.end());
}

std::span<const std::byte> ChunkSet::sketch(i64 number) const {
  const auto bytes = static_cast<std::size_t>(sketch_bytes_);
  return std::span(sketches_).subspan(static_cast<std::size_t>(number) * bytes, bytes);
}

ChunkSet::Place ChunkSet::place_of(i64 number) const {
  const i64 chunk = std::ranges::upper_bound(first_, number) - first_.begin() - 1;
  return {file(chunk), number - first_document(chunk)};
}

std::string ChunkSet::text(i64 number) const {
  const Place place = place_of(number);
  return Chunk::read_text(place.file, place.document);
}

std::string ChunkSet::id(i64 number) const {
  const Place place = place_of(number);
  return Chunk::read_id(place.file, place.document);
}

void ChunkSet::tokens(i64 number, DocumentTokens& out) const {
  const Place place = place_of(number);
  Chunk::read_tokens(place.file, place.document, out);
}

}  // namespace tessera
