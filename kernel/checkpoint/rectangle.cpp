#include <algorithm>
#include <bit>

#include "kernel/checkpoint/index.hpp"
#include "tessera/error.hpp"

namespace tessera {

i64 Rectangle::elements() const {
  i64 n = 1;
  for (const i64 size : shape) n *= size;
  return n;
}

bool Rectangle::empty() const { return std::ranges::find(shape, 0) != shape.end(); }

bool Rectangle::overlaps(const Rectangle& other) const {
  if (empty() || other.empty()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (begin[d] >= other.begin[d] + other.shape[d]) return false;
    if (other.begin[d] >= begin[d] + shape[d]) return false;
  }
  return true;
}

std::string Rectangle::text() const {
  std::string text;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    text += fmt::format("{}{}:{}", d == 0 ? "" : ", ", begin[d], begin[d] + shape[d]);
  }
  return "[" + text + "]";
}

namespace {

// Parts of `whole` along a dimension, of `entries` each; the last one may have fewer.
std::vector<Rectangle> parts_along(const Rectangle& whole, std::size_t dim, i64 entries) {
  std::vector<Rectangle> parts;
  for (i64 at = 0; at < whole.shape[dim]; at += entries) {
    Rectangle part = whole;
    part.begin[dim] += at;
    part.shape[dim] = std::min(entries, whole.shape[dim] - at);
    parts.push_back(std::move(part));
  }
  return parts;
}

i64 ceil_divide(i64 a, i64 b) { return (a + b - 1) / b; }

}  // namespace

std::vector<Rectangle> StoredSlice::bands() const {
  if (block_rows == 0) return {where};
  return parts_along(where, 0, block_rows);
}

std::vector<Rectangle> StoredSlice::blocks(const Rectangle& band) const {
  if (block_columns == 0) return {band};
  return parts_along(band, static_cast<std::size_t>(column_dim), block_columns);
}

std::vector<Rectangle> StoredSlice::blocks() const {
  std::vector<Rectangle> all;
  for (const Rectangle& band : bands()) {
    for (Rectangle& block : blocks(band)) all.push_back(std::move(block));
  }
  return all;
}

void StoredSlice::divide(i64 bytes, int dim) {
  constexpr i64 kLeastBandBytes = 64 * 1024, kMostBands = 128, kMostBandsOfBlocks = 32;
  constexpr i64 kLeastRowBytes = 512, kMostColumns = 32;
  block_rows = block_columns = 0;
  column_dim = 0;
  if (where.shape.empty() || where.empty()) return;
  const i64 rows = where.shape[0], row = where.elements() / rows * bytes;
  if (rows * row <= kLeastBandBytes) return;
  if (dim > 0) {
    const auto d = static_cast<std::size_t>(dim);
    i64 entry = bytes;  // bytes that lie together in one entry along `dim`
    for (std::size_t i = d + 1; i < where.shape.size(); ++i) entry *= where.shape[i];
    const i64 columns =
        std::max(ceil_divide(where.shape[d], kMostColumns), ceil_divide(kLeastRowBytes, entry));
    if (columns < where.shape[d]) {
      column_dim = dim;
      block_columns = columns;
    }
  }
  // A power of two, so that the shares of a dimension that ranks hold are mostly whole bands.
  const i64 most = block_columns > 0 ? kMostBandsOfBlocks : kMostBands;
  const i64 least = std::max(ceil_divide(kLeastBandBytes, row), ceil_divide(rows, most));
  block_rows = std::min(static_cast<i64>(std::bit_ceil(static_cast<u64>(least))), rows);
  if (block_rows == rows && block_columns == 0) block_rows = 0;
}

void CheckpointIndex::merge(const CheckpointIndex& part) {
  files.insert(files.end(), part.files.begin(), part.files.end());
  for (const auto& [name, tensor] : part.tensors) {
    const auto [at, added] = tensors.try_emplace(name, tensor);
    if (added) continue;
    require(at->second.shape == tensor.shape && at->second.dtype == tensor.dtype,
            "ranks disagree about the shape or dtype of \"{}\"",
            name);
    std::ranges::copy(tensor.slices, std::back_inserter(at->second.slices));
  }
}

std::optional<i64> CheckpointIndex::bytes_of(std::string_view file) const {
  const auto found = std::ranges::find(files, file, &StoredFile::name);
  return found == files.end() ? std::nullopt : std::optional(found->bytes);
}

i64 CheckpointIndex::total_bytes() const {
  i64 bytes = 0;
  for (const StoredFile& file : files) bytes += file.bytes;
  return bytes;
}

}  // namespace tessera
