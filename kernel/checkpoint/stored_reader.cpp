#include "kernel/checkpoint/stored_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/slices.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

constexpr std::size_t kListed = 20;

// "tensors "a", "b", "c" and 7 more"
std::string some_tensors(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 3;
  std::string text = names.size() == 1 ? "tensor" : "tensors";
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += fmt::format("{} {}", i == 0 ? "" : ",", quote(names[i]));
  }
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

}  // namespace

StoredReader::StoredReader(std::filesystem::path folder, const CheckpointIndex& index)
    : folder_(std::move(folder)), index_(index) {}

const SafetensorsFile& StoredReader::file(const std::string& name) {
  std::unique_ptr<SafetensorsFile>& file = files_[name];
  if (file != nullptr) return *file;
  if (const auto found = unusable_.find(name); found != unusable_.end()) throw found->second;
  try {
    file = std::make_unique<SafetensorsFile>(folder_ / name, index_.bytes_of(name).value_or(0));
  } catch (const Error& error) {
    unusable_.emplace(name, error);
    throw;
  }
  return *file;
}

void StoredReader::read(const std::string& dtype,
                        const StoredSlice& slice,
                        const std::function<bool(const Rectangle&)>& wanted,
                        const OnBlock& on_block) {
  const SafetensorsFile& in = file(slice.file);
  const SafetensorsEntry& entry = in.entry(slice.key);
  const std::string path = written_path(folder_ / slice.file);
  require(entry.dtype == dtype && entry.shape == slice.where.shape,
          "{} is damaged: its header says {} [{}]",
          path,
          entry.dtype,
          fmt::join(entry.shape, ", "));
  const i64 element = dtype_size(parse_dtype(dtype));
  require(entry.end - entry.begin == slice.where.elements() * element,
          "{} is damaged: {} bytes are not {} {}",
          path,
          entry.end - entry.begin,
          dtype,
          slice.where);
  std::size_t first = 0;  // of the band, among all blocks
  for (const Rectangle& band : slice.bands()) {
    const std::vector<Rectangle> blocks = slice.blocks(band);
    // Reads wanted blocks that lie side by side together.
    for (std::size_t from = 0, to = 0; from < blocks.size(); from = to + 1) {
      for (to = from; to < blocks.size() && wanted(blocks[to]);) ++to;
      if (from == to) continue;
      Rectangle together = blocks[from];
      for (std::size_t i = from + 1; i < to; ++i) {
        const auto dim = static_cast<std::size_t>(slice.column_dim);
        together.shape[dim] += blocks[i].shape[dim];
      }
      read_rectangle(in, entry, slice.where, together, element);
      for (std::size_t i = from; i < to; ++i) {
        const std::span<const std::byte> block =
            block_of(together_, together, blocks[i], element, block_);
        require(hash64(block) == slice.checksums[first + i],
                "{} is damaged: the checksum is wrong",
                path);
        on_block(blocks[i], block);
      }
    }
    first += blocks.size();
  }
}

void StoredReader::read_rectangle(const SafetensorsFile& in,
                                  const SafetensorsEntry& entry,
                                  const Rectangle& slice,
                                  const Rectangle& where,
                                  i64 element) {
  together_.resize(static_cast<std::size_t>(where.elements() * element));
  std::span<std::byte> rest = together_;
  each_run(slice.shape, begin_within(slice, where), where.shape, [&](i64 first, i64 count) {
    const auto bytes = static_cast<std::size_t>(count * element);
    in.read(entry, first * element, rest.first(bytes));
    rest = rest.subspan(bytes);
  });
}

std::vector<std::byte> StoredReader::read(const StoredTensor& tensor) {
  const i64 element = dtype_size(parse_dtype(tensor.dtype));
  i64 elements = 1;
  for (const i64 size : tensor.shape) elements *= size;
  // Memory is taken only once all files have the size that the index says.
  for (const StoredSlice& slice : tensor.slices) file(slice.file);
  std::vector<std::byte> whole(static_cast<std::size_t>(elements * element));
  for (const StoredSlice& slice : tensor.slices) {
    read(
        tensor.dtype,
        slice,
        [](const Rectangle&) { return true; },
        [&](const Rectangle& block, std::span<const std::byte> from) {
          copy_block(from,
                     block.shape,
                     std::vector<i64>(block.shape.size(), 0),
                     whole,
                     tensor.shape,
                     block.begin,
                     block.shape,
                     element);
        });
  }
  return whole;
}

bool Damage::collect(const std::string& tensor, const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    std::vector<std::string>& tensors = tensors_[error.what()];
    if (tensors.empty()) reasons_.emplace_back(error.what());
    if (error.resource() != Resource::none) short_of_ = error.resource();
    // Its slices come one after the other.
    if (tensors.empty() || tensors.back() != tensor) tensors.push_back(tensor);
    return false;
  }
}

void Damage::require_none(const std::filesystem::path& folder) const {
  if (reasons_.empty()) return;
  std::error_code unknown;
  if (!std::filesystem::exists(folder / kIndexName, unknown) && !unknown) {
    fail("checkpoint {} was removed while it was read", written_path(folder));
  }
  std::vector<std::string> lines;
  for (const std::string& reason : reasons_) {
    if (lines.size() == kListed) {
      lines.push_back(fmt::format("and {} more", reasons_.size() - kListed));
      break;
    }
    lines.push_back(fmt::format("{}: {}", some_tensors(tensors_.at(reason)), reason));
  }
  throw Error(fmt::format("checkpoint {} is damaged:\n  {}",
                          written_path(folder),
                          fmt::join(lines, "\n  ")))
      .add(short_of_);
}

std::string name_list(const std::vector<std::string>& names) {
  const auto shown = std::min(names.size(), kListed);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    text += (i == 0 ? "" : ", ") + written_plain(names[i], 200);
  }
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

CheckpointIndex verify_checkpoint(const std::filesystem::path& folder) {
  CheckpointIndex index = read_index(folder);
  StoredReader reader(folder, index);
  Damage damage;
  for (const auto& [name, tensor] : index.tensors) {
    for (const StoredSlice& slice : tensor.slices) {
      damage.collect(name, [&, &tensor = tensor] {
        reader.read(
            tensor.dtype,
            slice,
            [](const Rectangle&) { return true; },
            [](const Rectangle&, std::span<const std::byte>) {});
      });
    }
  }
  damage.require_none(folder);
  return index;
}

}  // namespace tessera
