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

std::vector<Rectangle> StoredSlice::blocks() const {
  if (block_rows == 0) return {where};
  std::vector<Rectangle> blocks;
  for (i64 row = 0; row < where.shape[0]; row += block_rows) {
    Rectangle block = where;
    block.begin[0] += row;
    block.shape[0] = std::min(block_rows, where.shape[0] - row);
    blocks.push_back(std::move(block));
  }
  return blocks;
}

// A power of two, so that the shares of a dimension that ranks hold are mostly whole blocks.
i64 block_rows_of(const Rectangle& slice, i64 bytes) {
  constexpr i64 kLeastBytes = 64 * 1024, kMostBlocks = 128;
  if (slice.shape.empty() || slice.empty()) return 0;
  const i64 rows = slice.shape[0], row = slice.elements() / rows * bytes;
  const i64 least = std::max((kLeastBytes + row - 1) / row, (rows + kMostBlocks - 1) / kMostBlocks);
  const auto block = static_cast<i64>(std::bit_ceil(static_cast<u64>(least)));
  return block < rows ? block : 0;
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

void CheckpointIndex::check_tiling() const {
  for (const auto& [name, tensor] : tensors) {
    const Rectangle whole{std::vector<i64>(tensor.shape.size(), 0), tensor.shape};
    i64 covered = 0;
    for (std::size_t i = 0; i < tensor.slices.size(); ++i) {
      const Rectangle& slice = tensor.slices[i].where;
      require(bytes_of(tensor.slices[i].file).has_value(),
              "\"{}\" lies in \"{}\", which is not listed",
              name,
              tensor.slices[i].file);
      for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
        require(slice.begin[d] >= 0 && slice.shape[d] >= 0 &&
                    slice.shape[d] <= tensor.shape[d] - slice.begin[d],
                "slice {} of \"{}\" lies outside of {}",
                slice,
                name,
                whole);
      }
      covered += slice.elements();
      for (std::size_t j = 0; j < i; ++j) {
        require(!slice.overlaps(tensor.slices[j].where),
                "slices {} and {} of \"{}\" overlap",
                slice,
                tensor.slices[j].where,
                name);
      }
    }
    require(covered == whole.elements(),
            "slices of \"{}\" hold {} of its {} elements",
            name,
            covered,
            whole.elements());
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
