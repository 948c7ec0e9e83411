#include "kernel/checkpoint/rank_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/finite.hpp"
#include "kernel/checkpoint/safetensors_file.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

// Decides which of equal replicas saves a tensor: the one with the fewest bytes so far. All of them
// decide alike, as they hold the same tensors in the same order.
class Replicas {
 public:
  explicit Replicas(const Mesh& mesh)
      : index_(mesh.coordinate(Axis::data) * mesh.size(Axis::context) +
               mesh.coordinate(Axis::context)),
        bytes_(static_cast<std::size_t>(mesh.size(Axis::data) * mesh.size(Axis::context))) {}

  bool saves(const CheckpointTensor& tensor) {
    const ParameterLayout& layout = tensor.of->layout;
    if (tensor.holders != StateHolders::every_replica) return layout.counted();
    if (layout.expert()) return layout.saved();
    if (!layout.counted()) return false;
    const auto least = std::ranges::min_element(bytes_);
    *least += tensor.tensor.bytes();
    return least - bytes_.begin() == index_;
  }

  // How many bytes this share is smaller than the largest.
  i64 behind() const { return std::ranges::max(bytes_) - bytes_[static_cast<std::size_t>(index_)]; }

 private:
  i64 index_;
  std::vector<i64> bytes_;  // by replica
};

SafetensorsEntry entry_of(const CheckpointTensor& tensor, const Rectangle& where) {
  const bool whole = where.shape == sizes_of(tensor.of->logical);
  SafetensorsEntry entry;
  entry.key = whole ? tensor.name : tensor.name + where.text();
  entry.dtype = dtype_name(tensor.tensor.dtype());
  entry.shape = where.shape;
  return entry;
}

// Where a block of `shape` lies in values that begin with element `first` of a dense array, if it
// is one piece there; empty if it is not.
std::span<const std::byte> one_piece(std::span<const std::byte> values,
                                     const std::vector<i64>& sizes,
                                     const std::vector<i64>& begin,
                                     const std::vector<i64>& shape,
                                     i64 element,
                                     i64 first) {
  i64 row = element;  // bytes of one step along dimension 0
  for (std::size_t d = 1; d < sizes.size(); ++d) {
    if (shape[d] != sizes[d]) return {};
    row *= sizes[d];
  }
  const i64 at = sizes.empty() ? 0 : begin[0] * row, rows = sizes.empty() ? 1 : shape[0];
  return values.subspan(static_cast<std::size_t>(at - first * element),
                        static_cast<std::size_t>(rows * row));
}

// Runs the jobs at once, each on a thread of its own but for the first.
void at_once(const std::vector<std::function<void()>>& jobs) {
  std::vector<std::exception_ptr> errors(jobs.size());
  const auto run = [&](std::size_t i) {
    try {
      jobs[i]();
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  std::vector<std::jthread> threads;  // where no more can start, these are joined first
  for (std::size_t i = 1; i < jobs.size(); ++i) threads.emplace_back(run, i);
  if (!jobs.empty()) run(0);
  threads.clear();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace

std::string proof_of(const std::string& text) { return fmt::format("{:016x}", hash64(text)); }

std::string part_name(i64 rank, std::string_view extension) {
  return fmt::format("rank-{:05}.{}", rank, extension);
}

// One file while it is written. Used by one thread at a time.
struct RankPart::File {
  std::string name;
  std::vector<std::size_t> tensors;  // in the order of the file
  std::optional<SafetensorsWriter> out;
  CheckpointIndex part;
  HostBytes memory = {}, band = {}, block = {};

  // Checks and sums each band while it is in the cache.
  void write_slice(const CheckpointTensor& tensor,
                   const LocalSlice& slice,
                   std::span<const std::byte> values,
                   const ByteSink& sink) {
    const i64 element = dtype_size(tensor.tensor.dtype());
    StoredSlice stored{name, entry_of(tensor, slice.where).key, slice.where, {}};
    stored.divide(element, tensor.of->layout.column_dim());
    const std::vector<i64> sizes = sizes_of(tensor.of->local);
    for (const Rectangle& where : stored.bands()) {
      std::vector<i64> begin = begin_within(slice.where, where);
      for (std::size_t d = 0; d < begin.size(); ++d) begin[d] += slice.local_begin[d];
      std::span<const std::byte> bytes =
          one_piece(values, sizes, begin, where.shape, element, tensor.range.begin);
      if (bytes.empty()) {
        band.resize(static_cast<std::size_t>(where.elements() * element));
        copy_block(values,
                   sizes,
                   begin,
                   band,
                   where.shape,
                   std::vector<i64>(where.shape.size(), 0),
                   where.shape,
                   element,
                   tensor.range.begin);
        bytes = band;
      }
      // A run could only fail with such values, and saving them would remove an older checkpoint.
      require(all_finite(tensor.tensor.dtype(), bytes),
              "\"{}\" has values that are not finite, as after a divergence: training cannot go on "
              "from them",
              tensor.name);
      for (const Rectangle& part : stored.blocks(where)) {
        stored.checksums.push_back(hash64(block_of(bytes, where, part, element, block)));
      }
      sink(bytes);
    }
    StoredTensor& of = part.tensors[tensor.name];
    of.dtype = dtype_name(tensor.tensor.dtype());
    of.shape = sizes_of(tensor.of->logical);
    of.slices.push_back(std::move(stored));
  }
};

RankPart::RankPart(const Mesh& mesh, std::vector<CheckpointTensor> tensors) : rank_(mesh.rank()) {
  Replicas replicas(mesh);
  for (CheckpointTensor& tensor : tensors) {
    if (!replicas.saves(tensor)) continue;
    std::vector<LocalSlice> slices = local_slices(tensor.of->layout, tensor.range);
    if (slices.empty()) continue;
    pieces_.push_back(std::move(slices));
    tensors_.push_back(std::move(tensor));
  }
  behind_ = replicas.behind();
}

i64 RankPart::bytes() const {
  i64 bytes = 0;
  for (const CheckpointTensor& tensor : tensors_) bytes += tensor.tensor.bytes();
  return bytes;
}

// Several files take the tensors in turns, the large ones first, so that those that are written at
// once are about equally large.
std::vector<RankPart::File> RankPart::files(int threads) const {
  constexpr i64 kLeastBytes = i64{64} << 20;
  if (tensors_.empty()) return {};
  const i64 count = std::clamp<i64>(bytes() / kLeastBytes, 1, std::max(threads, 1));
  std::vector<std::size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (count > 1) {
    std::ranges::stable_sort(
        order, std::ranges::greater(), [&](std::size_t i) { return tensors_[i].tensor.bytes(); });
  }
  std::vector<File> files(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < order.size(); ++i)
    files[i % files.size()].tensors.push_back(order[i]);
  for (std::size_t f = 0; f < files.size(); ++f) {
    files[f].name = count == 1 ? part_name(rank_, "safetensors")
                               : part_name(rank_, fmt::format("{}.safetensors", f));
  }
  return files;
}

std::string RankPart::write(const fs::path& folder, const Values& values, int threads) const {
  std::vector<File> all = files(threads);
  for (File& file : all) {
    std::vector<SafetensorsEntry> entries;
    for (const std::size_t t : file.tensors) {
      for (const LocalSlice& slice : pieces_[t]) {
        entries.push_back(entry_of(tensors_[t], slice.where));
      }
    }
    file.out.emplace(folder / file.name, std::move(entries));
  }
  // Deals tensors out in rounds: the next tensor of each file.
  for (std::size_t round = 0; !all.empty() && round < all[0].tensors.size(); ++round) {
    std::vector<std::function<void()>> jobs;
    for (File& file : all) {
      if (round == file.tensors.size()) continue;
      const std::size_t t = file.tensors[round];
      jobs.emplace_back([&file,
                         &tensor = tensors_[t],
                         &pieces = pieces_[t],
                         bytes = values(tensors_[t], file.memory)] {
        for (const LocalSlice& slice : pieces) {
          file.out->next(
              [&](const ByteSink& sink) { file.write_slice(tensor, slice, bytes, sink); });
        }
      });
    }
    at_once(jobs);
  }
  std::vector<std::function<void()>> syncs;
  for (File& file : all) {
    syncs.emplace_back([&file] { file.part.files = {{file.name, file.out->finish()}}; });
  }
  at_once(syncs);
  CheckpointIndex part;
  for (const File& file : all) part.merge(file.part);
  const std::string text = part.to_json();
  write_synced(folder / part_name(rank_, "json"), text);
  return proof_of(text);
}

void RankPart::copy(Device& device, const HostBlock& block) const {
  i64 offset = 0;
  for (const CheckpointTensor& tensor : tensors_) {
    device.copy_to_host(device.stream(), tensor.tensor, block, offset);
    offset += tensor.tensor.bytes();
  }
  device.synchronize(device.stream());
}

RankPart::Values RankPart::values_in(const HostBlock& block) const {
  return [this, block](const CheckpointTensor& wanted, HostBytes&) {
    i64 offset = 0;
    for (const CheckpointTensor& tensor : tensors_) {
      if (&tensor == &wanted) break;
      offset += tensor.tensor.bytes();
    }
    return std::span<const std::byte>(block.address() + offset,
                                      static_cast<std::size_t>(wanted.tensor.bytes()));
  };
}

RankPart::Values values_on(Device& device) {
  return [&device](const CheckpointTensor& tensor, HostBytes& memory) {
    memory.resize(static_cast<std::size_t>(tensor.tensor.bytes()));
    device.read(tensor.tensor, memory.data());
    return std::span<const std::byte>(memory);
  };
}

}  // namespace tessera
