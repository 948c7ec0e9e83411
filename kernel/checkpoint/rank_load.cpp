#include "kernel/checkpoint/rank_load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "kernel/checkpoint/slices.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

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

// "w" of its state "w/first_moment", and of itself.
std::string owner_of(const std::string& name) { return name.substr(0, name.find('/')); }

}  // namespace

void require_fit(const fs::path& folder,
                 const CheckpointIndex& index,
                 const std::vector<CheckpointTensor>& tensors,
                 const std::vector<std::string>* others) {
  std::vector<std::string> missing, extra, other;
  std::set<std::string> wanted, here;  // `here`: owners
  if (others != nullptr) wanted.insert(others->begin(), others->end());
  for (const CheckpointTensor& tensor : tensors) {
    wanted.insert(tensor.name);
    here.insert(owner_of(tensor.name));
    const auto found = index.tensors.find(tensor.name);
    if (found == index.tensors.end()) {
      missing.push_back(tensor.name);
      continue;
    }
    const StoredTensor& stored = found->second;
    const std::string_view dtype = dtype_name(tensor.tensor.dtype());
    if (stored.shape == sizes_of(tensor.of->logical) && stored.dtype == dtype) continue;
    other.push_back(fmt::format("{}: {} [{}] in the checkpoint, {} [{}] in this configuration",
                                tensor.name,
                                stored.dtype,
                                fmt::join(stored.shape, ", "),
                                dtype,
                                fmt::join(sizes_of(tensor.of->logical), ", ")));
  }
  for (const auto& [name, tensor] : index.tensors) {
    if (others == nullptr || wanted.contains(name)) continue;
    // A rule may keep other state for other parameters, so only ranks that load a parameter judge
    // its state.
    const std::string owner = owner_of(name);
    if (here.contains(owner) || !wanted.contains(owner)) extra.push_back(name);
  }
  const auto is_state = [](const std::string& name) { return name.find('/') != name.npos; };
  const bool only_state = std::ranges::all_of(missing, is_state) &&
                          std::ranges::all_of(extra, is_state) &&
                          std::ranges::all_of(other, is_state);
  std::string text;
  if (!missing.empty()) text += "\n  not in the checkpoint: " + name_list(missing);
  if (!extra.empty()) text += "\n  not in this configuration: " + name_list(extra);
  for (std::size_t i = 0; i < std::min<std::size_t>(other.size(), 20); ++i) {
    text += "\n  " + other[i];
  }
  if (other.size() > 20) text += fmt::format("\n  and {} more", other.size() - 20);
  if (!text.empty() && only_state) {
    text += fmt::format(
        "\n  Its parameters fit, the state of its optimizer does not. To start a new run from "
        "these parameters: checkpoint.init_from = \"{}\" and another run.out",
        folder.string());
  }
  if (text.empty()) return;
  fail_config("checkpoint {} does not fit this configuration:{}", folder.string(), text);
}

TakeContents into_tensors(Device& device) {
  return [&device](const CheckpointTensor& tensor, const HostBytes& contents) {
    device.write(tensor.tensor, contents.data());
  };
}

void read_tensors(const fs::path& folder,
                  const CheckpointIndex& index,
                  const std::vector<CheckpointTensor>& tensors,
                  const TakeContents& take) {
  StoredReader reader(folder, index);
  Damage damage;
  for (const CheckpointTensor& tensor : tensors) {
    const StoredTensor& stored = index.tensors.at(tensor.name);
    const i64 element = dtype_size(tensor.tensor.dtype());
    const Shape& local = tensor.of->local;
    HostBytes to(static_cast<std::size_t>(local.elements() * element));
    const std::vector<LocalSlice> all = local_slices(tensor.of->layout, tensor.range);
    const auto wanted = [&](const Rectangle& where) {
      return std::ranges::any_of(
          all, [&](const LocalSlice& mine) { return mine.where.overlaps(where); });
    };
    bool good = true;
    for (const StoredSlice& slice : stored.slices) {
      if (!wanted(slice.where)) continue;
      good &= damage.collect(tensor.name, [&] {
        reader.read(stored.dtype,
                    slice,
                    wanted,
                    [&](const Rectangle& block, std::span<const std::byte> from) {
                      for (const LocalSlice& mine : all) {
                        if (mine.where.overlaps(block))
                          copy_overlap(block, from, mine, local, to, element);
                      }
                    });
      });
    }
    if (tensor.range.length != local.elements()) {
      const auto begin = to.begin() + tensor.range.begin * element;
      to = HostBytes(begin, begin + tensor.range.length * element);
    }
    if (good) take(tensor, std::move(to));
  }
  damage.require_none(folder);
}

}  // namespace tessera
