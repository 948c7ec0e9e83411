#include "kernel/checkpoint/checkpoints.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/safetensors_file.hpp"
#include "kernel/checkpoint/slices.hpp"
#include "kernel/launch/agree.hpp"
#include "kernel/model/logical.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

std::vector<i64> sizes_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

std::vector<std::byte> host_bytes(Device& device, const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
  device.read(tensor, bytes.data());
  return bytes;
}

// Runs `work` on every rank; when it fails on any, all throw the first rank's reason.
class Together {
 public:
  explicit Together(const CheckpointArguments& arguments) : a_(arguments) {}

  // Every rank's text, by rank.
  template <class F>
  std::vector<std::string> all(std::string_view what, F&& work) const {
    std::string text, error;
    try {
      text = "+" + work();
    } catch (const std::exception& failed) {
      text = fmt::format("-{}", failed.what());
    }
    std::vector<std::string> texts{text};
    if (a_.store != nullptr) {
      texts = gather_text(*a_.store,
                          a_.mesh->rank(),
                          a_.mesh->world_size(),
                          fmt::format("checkpoint/{}", what),
                          text,
                          a_.timeout);
    }
    for (const std::string& each : texts) {
      if (each.starts_with('-')) throw Error(each.substr(1));
    }
    for (std::string& each : texts) each.erase(0, 1);
    return texts;
  }
  // Work of rank 0 alone; its text.
  template <class F>
  std::string root(std::string_view what, F&& work) const {
    return all(what, [&] { return a_.mesh->rank() == 0 ? work() : std::string(); })[0];
  }

 private:
  const CheckpointArguments& a_;
};

// What this rank writes: its rectangles of every tensor that it stands for.
CheckpointIndex write_file(const CheckpointArguments& a,
                           const fs::path& folder,
                           const std::vector<CheckpointTensor>& tensors) {
  struct Piece {
    const CheckpointTensor* tensor;
    LocalSlice slice;
  };
  const std::string file = fmt::format("rank-{:05}.safetensors", a.mesh->rank());
  std::vector<Piece> pieces;
  std::vector<SafetensorsEntry> entries;
  for (const CheckpointTensor& tensor : tensors) {
    if (!represents(*tensor.layout, *a.mesh)) continue;
    for (const LocalSlice& slice : local_slices(*tensor.layout, *a.mesh)) {
      const bool whole = slice.where.shape == sizes_of(tensor.layout->logical);
      entries.push_back({whole ? tensor.name : tensor.name + slice.where.text(),
                         std::string(dtype_name(tensor.tensor.dtype())),
                         slice.where.shape});
      pieces.push_back({&tensor, slice});
    }
  }
  CheckpointIndex part;
  if (pieces.empty()) return part;
  std::vector<std::byte> bytes;
  const auto bytes_of = [&](std::size_t i) -> std::span<const std::byte> {
    const auto& [tensor, slice] = pieces[i];
    const i64 element = dtype_size(tensor->tensor.dtype());
    const std::vector<std::byte> local = host_bytes(*a.device, tensor->tensor);
    bytes.assign(static_cast<std::size_t>(slice.where.elements() * element), {});
    copy_block(local,
               sizes_of(tensor->layout->local),
               slice.local_begin,
               bytes,
               slice.where.shape,
               std::vector<i64>(slice.where.shape.size(), 0),
               slice.where.shape,
               element);
    StoredTensor& stored = part.tensors[tensor->name];
    stored.dtype = entries[i].dtype;
    stored.shape = sizes_of(tensor->layout->logical);
    stored.slices.push_back({file, entries[i].key, slice.where, checksum(bytes)});
    return bytes;
  };
  part.files.push_back({file, write_safetensors(folder / file, entries, bytes_of)});
  return part;
}

// Rank 0, phase two: all parts are on the disk; make them a checkpoint.
void commit(const CheckpointInfo& info,
            const std::vector<std::string>& parts,
            const fs::path& temporary,
            const fs::path& folder) {
  CheckpointIndex index;
  index.info = info;
  for (const std::string& part : parts) {
    index.merge(CheckpointIndex::from_json(part, "a rank's report"));
  }
  index.check_tiling();
  write_synced(temporary / "index.json", index.to_json());
  sync_to_disk(temporary);
  replace_folder(temporary, folder);
}

// Contents of this rank's tensors, read and checked, not yet on the device.
std::vector<std::vector<std::byte>> read_tensors(const CheckpointArguments& a,
                                                 const fs::path& folder,
                                                 const CheckpointIndex& index,
                                                 const std::vector<CheckpointTensor>& tensors) {
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files;
  const auto stored_bytes = [&](const std::string& name, const StoredSlice& slice) {
    std::unique_ptr<SafetensorsFile>& file = files[slice.file];
    if (file == nullptr) file = std::make_unique<SafetensorsFile>(folder / slice.file);
    const std::span<const std::byte> bytes = file->bytes(slice.key);
    require(checksum(bytes) == slice.checksum,
            "{} is damaged: the checksum of tensor \"{}\" is wrong",
            (folder / slice.file).string(),
            name);
    return bytes;
  };
  std::vector<std::vector<std::byte>> contents;
  for (const CheckpointTensor& tensor : tensors) {
    const StoredTensor& stored = index.tensors.at(tensor.name);
    const i64 element = dtype_size(tensor.tensor.dtype());
    std::vector<std::byte>& local =
        contents.emplace_back(static_cast<std::size_t>(tensor.layout->local.elements() * element));
    for (const LocalSlice& mine : local_slices(*tensor.layout, *a.mesh)) {
      for (const StoredSlice& slice : stored.slices) {
        if (!mine.where.overlaps(slice.where)) continue;
        std::vector<i64> from, to, shape;
        for (std::size_t d = 0; d < stored.shape.size(); ++d) {
          const i64 begin = std::max(mine.where.begin[d], slice.where.begin[d]);
          const i64 end = std::min(mine.where.begin[d] + mine.where.shape[d],
                                   slice.where.begin[d] + slice.where.shape[d]);
          from.push_back(begin - slice.where.begin[d]);
          to.push_back(begin - mine.where.begin[d] + mine.local_begin[d]);
          shape.push_back(end - begin);
        }
        copy_block(stored_bytes(tensor.name, slice),
                   slice.where.shape,
                   from,
                   local,
                   sizes_of(tensor.layout->local),
                   to,
                   shape,
                   element);
      }
    }
  }
  return contents;
}

// What does not fit between a checkpoint and this run, as one text; empty when all fits.
std::string mismatches(const CheckpointIndex& index, const std::vector<CheckpointTensor>& tensors) {
  std::string missing, extra, other;
  std::set<std::string> wanted;
  for (const CheckpointTensor& tensor : tensors) {
    wanted.insert(tensor.name);
    const auto found = index.tensors.find(tensor.name);
    if (found == index.tensors.end()) {
      missing += " " + tensor.name;
      continue;
    }
    Shape shape;
    for (const i64 size : found->second.shape) shape.push_back(size);
    const std::string_view dtype = dtype_name(tensor.tensor.dtype());
    if (shape == tensor.layout->logical && found->second.dtype == dtype) continue;
    other += fmt::format("\n  {}: {} {} in the checkpoint, {} {} in this run",
                         tensor.name,
                         found->second.dtype,
                         shape.text(),
                         dtype,
                         tensor.layout->logical.text());
  }
  for (const auto& [name, tensor] : index.tensors) {
    if (!wanted.contains(name)) extra += " " + name;
  }
  std::string text;
  if (!missing.empty()) text += "\n  missing:" + missing;
  if (!extra.empty()) text += "\n  not of this run:" + extra;
  return text + other;
}

}  // namespace

Checkpoints::Checkpoints(const CheckpointArguments& arguments) : arguments_(arguments) {}

fs::path Checkpoints::save(const CheckpointInfo& info,
                           const std::vector<CheckpointTensor>& tensors) {
  const CheckpointArguments& a = arguments_;
  const Together together(a);
  const fs::path folder = step_folder(a.folder, info.step);
  const fs::path temporary = folder.string() + "." + a.run + ".tmp";
  try {
    together.root("prepare", [&] {
      fs::remove_all(temporary);
      fs::create_directories(temporary);
      return std::string();
    });
    const std::vector<std::string> parts =
        together.all("write", [&] { return write_file(a, temporary, tensors).to_json(); });
    together.root("commit", [&] {
      commit(info, parts, temporary, folder);
      return std::string();
    });
  } catch (const std::exception& error) {
    if (a.mesh->rank() == 0) {
      std::error_code ignored;
      fs::remove_all(temporary, ignored);
    }
    fail("saving step {} failed, older checkpoints are whole: {}", info.step, error.what());
  }
  if (a.mesh->rank() == 0 && a.keep > 0) remove_old(a.folder, a.keep);
  return folder;
}

std::optional<Checkpoints::Loaded> Checkpoints::load(const std::string& resume,
                                                     const std::vector<CheckpointTensor>& tensors) {
  if (resume == "none") return std::nullopt;
  const CheckpointArguments& a = arguments_;
  const Together together(a);
  const bool automatic = resume == "auto";
  const std::vector<std::string> candidates = split_lines(together.root("find", [&] {
    return join_lines(automatic ? complete_steps(a.folder) : std::vector<fs::path>{resume});
  }));
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const fs::path folder = candidates[i];
    try {
      CheckpointIndex index;
      std::vector<std::vector<std::byte>> contents;
      together.all("read", [&] {
        index = read_index(folder);
        const std::string wrong = mismatches(index, tensors);
        if (!wrong.empty()) {
          fail_config("checkpoint {} does not fit this run:{}", folder.string(), wrong);
        }
        contents = read_tensors(a, folder, index, tensors);
        return std::string();
      });
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        a.device->write(tensors[t].tensor, contents[t].data());
      }
      return Loaded{index.info, folder};
    } catch (const std::exception& error) {
      const bool misfit = std::string_view(error.what()).find("does not fit") != std::string::npos;
      if (!automatic || misfit || i + 1 == candidates.size()) throw;
      if (a.mesh->rank() == 0) {
        log_warning("{}; falling back to {}", error.what(), candidates[i + 1]);
      }
    }
  }
  return std::nullopt;
}

}  // namespace tessera
