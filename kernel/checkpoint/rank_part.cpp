#include "kernel/checkpoint/rank_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>

#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/safetensors_file.hpp"
#include "kernel/checkpoint/slices.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "tessera/error.hpp"
#include "tessera/hash.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

std::vector<i64> sizes_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

struct Piece {
  const CheckpointTensor* tensor;
  LocalSlice slice;
};

// Of equal replicas one rank saves; a rank that alone holds its elements saves them.
std::vector<Piece> pieces_of(const std::vector<CheckpointTensor>& tensors) {
  std::vector<Piece> pieces;
  for (const CheckpointTensor& tensor : tensors) {
    const ParameterLayout& layout = tensor.parameter->layout;
    const bool replicated = tensor.holders == StateHolders::every_replica;
    if (!(replicated ? layout.saved() : layout.counted())) continue;
    for (const LocalSlice& slice : local_slices(layout, tensor.range)) {
      pieces.push_back({&tensor, slice});
    }
  }
  return pieces;
}

SafetensorsEntry entry_of(const Piece& piece) {
  const Rectangle& where = piece.slice.where;
  const bool whole = where.shape == sizes_of(piece.tensor->parameter->logical);
  SafetensorsEntry entry;
  entry.key = whole ? piece.tensor->name : piece.tensor->name + where.text();
  entry.dtype = dtype_name(piece.tensor->tensor.dtype());
  entry.shape = where.shape;
  return entry;
}

template <class Bits>
bool all_finite(std::span<const std::byte> bytes, Bits exponent) {
  bool finite = true;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + at, sizeof(bits));
    finite &= (bits & exponent) != exponent;
  }
  return finite;
}

// A run that went on from such values could only fail again, and an older checkpoint would be
// removed for them.
void require_finite(const CheckpointTensor& tensor, std::span<const std::byte> bytes) {
  bool finite = true;
  switch (tensor.tensor.dtype()) {
    case DType::fp64:
      finite = all_finite<u64>(bytes, 0x7FF0000000000000);
      break;
    case DType::fp32:
      finite = all_finite<u32>(bytes, 0x7F800000);
      break;
    case DType::bf16:
      finite = all_finite<std::uint16_t>(bytes, 0x7F80);
      break;
    case DType::fp16:
      finite = all_finite<std::uint16_t>(bytes, 0x7C00);
      break;
    default:
      break;
  }
  require(finite, "\"{}\" has values that are not finite: the run has diverged", tensor.name);
}

std::string proof_of(const std::string& text) { return fmt::format("{:016x}", hash64(text)); }

std::string part_name(i64 rank, std::string_view extension) {
  return fmt::format("rank-{:05}.{}", rank, extension);
}

// The part of `stored` that lies in `mine`, into this rank's storage.
void copy_overlap(const Rectangle& stored,
                  std::span<const std::byte> from,
                  const LocalSlice& mine,
                  const Shape& local,
                  HostBytes& to,
                  i64 element) {
  std::vector<i64> from_begin, to_begin, shape;
  for (std::size_t d = 0; d < stored.shape.size(); ++d) {
    const i64 begin = std::max(mine.where.begin[d], stored.begin[d]);
    const i64 end =
        std::min(mine.where.begin[d] + mine.where.shape[d], stored.begin[d] + stored.shape[d]);
    from_begin.push_back(begin - stored.begin[d]);
    to_begin.push_back(begin - mine.where.begin[d] + mine.local_begin[d]);
    shape.push_back(end - begin);
  }
  copy_block(from, stored.shape, from_begin, to, sizes_of(local), to_begin, shape, element);
}

void require_fit(const fs::path& folder,
                 const CheckpointIndex& index,
                 const std::vector<CheckpointTensor>& tensors,
                 const std::vector<std::string>* others) {
  std::vector<std::string> missing, extra, other;
  std::set<std::string> wanted;
  if (others != nullptr) wanted.insert(others->begin(), others->end());
  for (const CheckpointTensor& tensor : tensors) {
    wanted.insert(tensor.name);
    const auto found = index.tensors.find(tensor.name);
    if (found == index.tensors.end()) {
      missing.push_back(tensor.name);
      continue;
    }
    const StoredTensor& stored = found->second;
    const std::string_view dtype = dtype_name(tensor.tensor.dtype());
    if (stored.shape == sizes_of(tensor.parameter->logical) && stored.dtype == dtype) continue;
    other.push_back(fmt::format("{}: {} [{}] in the checkpoint, {} [{}] in this run",
                                tensor.name,
                                stored.dtype,
                                fmt::join(stored.shape, ", "),
                                dtype,
                                fmt::join(sizes_of(tensor.parameter->logical), ", ")));
  }
  for (const auto& [name, tensor] : index.tensors) {
    if (others != nullptr && !wanted.contains(name)) extra.push_back(name);
  }
  std::string text;
  if (!missing.empty()) text += "\n  not in the checkpoint: " + name_list(missing);
  if (!extra.empty()) text += "\n  not in this run: " + name_list(extra);
  for (std::size_t i = 0; i < std::min<std::size_t>(other.size(), 20); ++i) {
    text += "\n  " + other[i];
  }
  if (other.size() > 20) text += fmt::format("\n  and {} more", other.size() - 20);
  if (!text.empty()) fail_config("checkpoint {} does not fit this run:{}", folder.string(), text);
}

}  // namespace

std::string write_part(const fs::path& folder,
                       const Mesh& mesh,
                       Device& device,
                       const std::vector<CheckpointTensor>& tensors) {
  const std::vector<Piece> pieces = pieces_of(tensors);
  CheckpointIndex part;
  if (!pieces.empty()) {
    std::vector<SafetensorsEntry> entries;
    entries.reserve(pieces.size());
    for (const Piece& piece : pieces) entries.push_back(entry_of(piece));
    const std::string file = part_name(mesh.rank(), "safetensors");
    HostBytes local, bytes;
    const CheckpointTensor* read = nullptr;  // what `local` holds
    const auto bytes_of = [&](std::size_t i) -> std::span<const std::byte> {
      const auto& [tensor, slice] = pieces[i];
      if (read != tensor) {
        const i64 size = dtype_size(tensor->tensor.dtype());
        local.resize(static_cast<std::size_t>(tensor->parameter->local.elements() * size));
        device.read(tensor->tensor, local.data() + tensor->range.begin * size);
        read = tensor;
      }
      const i64 element = dtype_size(tensor->tensor.dtype());
      const std::vector<i64>& shape = slice.where.shape;
      bytes.resize(static_cast<std::size_t>(slice.where.elements() * element));
      copy_block(local,
                 sizes_of(tensor->parameter->local),
                 slice.local_begin,
                 bytes,
                 shape,
                 std::vector<i64>(shape.size(), 0),
                 shape,
                 element);
      require_finite(*tensor, bytes);
      StoredTensor& stored = part.tensors[tensor->name];
      stored.dtype = entries[i].dtype;
      stored.shape = sizes_of(tensor->parameter->logical);
      stored.slices.push_back({file, entries[i].key, slice.where, hash64(bytes)});
      return bytes;
    };
    part.files.push_back({file, write_safetensors(folder / file, entries, bytes_of)});
  }
  const std::string text = part.to_json();
  write_synced(folder / part_name(mesh.rank(), "json"), text);
  return proof_of(text);
}

CheckpointIndex read_part(const fs::path& folder, i64 rank, const std::string& proof) {
  const fs::path file = folder / part_name(rank, "json");
  const std::string text = fs::exists(file) ? read_text_file(file) : std::string();
  require(proof_of(text) == proof,
          "rank 0 does not find in {} what rank {} wrote there; all hosts must share the folder",
          folder.string(),
          rank);
  CheckpointIndex part = CheckpointIndex::from_json(text, file.string());
  for (const StoredFile& stored : part.files) {
    const fs::path data = folder / stored.name;
    require(fs::exists(data) && static_cast<i64>(fs::file_size(data)) == stored.bytes,
            "{} is not as rank {} wrote it",
            data.string(),
            rank);
  }
  fs::remove(file);
  return part;
}

std::vector<HostBytes> read_tensors(const fs::path& folder,
                                    const CheckpointIndex& index,
                                    const std::vector<CheckpointTensor>& tensors,
                                    const std::vector<std::string>* others) {
  require_fit(folder, index, tensors, others);
  StoredReader reader(folder, index);
  Damage damage;
  std::vector<HostBytes> contents;
  for (const CheckpointTensor& tensor : tensors) {
    const StoredTensor& stored = index.tensors.at(tensor.name);
    const i64 element = dtype_size(tensor.tensor.dtype());
    const Shape& local = tensor.parameter->local;
    HostBytes to(static_cast<std::size_t>(local.elements() * element));
    const std::vector<LocalSlice> all = local_slices(tensor.parameter->layout, tensor.range);
    for (const StoredSlice& slice : stored.slices) {
      const auto wanted = [&](const LocalSlice& mine) { return mine.where.overlaps(slice.where); };
      if (std::ranges::none_of(all, wanted)) continue;
      damage.collect(tensor.name, [&] {
        const HostBytes from = reader.read(stored.dtype, slice);
        for (const LocalSlice& mine : all) {
          if (wanted(mine)) copy_overlap(slice.where, from, mine, local, to, element);
        }
      });
    }
    if (tensor.range.length != local.elements()) {
      const auto begin = to.begin() + tensor.range.begin * element;
      to = HostBytes(begin, begin + tensor.range.length * element);
    }
    contents.push_back(std::move(to));
  }
  damage.require_none(folder);
  return contents;
}

}  // namespace tessera
