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

// Copies the part of `stored` that lies in `mine` into this rank's storage.
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

// The parameter that a name belongs to: "w" for "w/first_moment" and for "w".
std::string owner_of(const std::string& name) { return name.substr(0, name.find('/')); }

}  // namespace

void Misfit::add(const Misfit& more) {
  const auto merge = [](std::vector<std::string>& all, const std::vector<std::string>& some) {
    for (const std::string& one : some) {
      if (std::ranges::find(all, one) == all.end()) all.push_back(one);
    }
  };
  merge(missing, more.missing);
  merge(extra, more.extra);
  merge(other, more.other);
}

Misfit find_misfit(const CheckpointIndex& index,
                   const std::vector<CheckpointTensor>& tensors,
                   const std::vector<std::string>* others) {
  Misfit found;
  std::set<std::string> wanted, here;  // `here`: owners
  if (others != nullptr) wanted.insert(others->begin(), others->end());
  for (const CheckpointTensor& tensor : tensors) {
    wanted.insert(tensor.name);
    here.insert(owner_of(tensor.name));
    const auto there = index.tensors.find(tensor.name);
    if (there == index.tensors.end()) {
      found.missing.push_back(tensor.name);
      continue;
    }
    const StoredTensor& stored = there->second;
    const std::string_view dtype = dtype_name(tensor.tensor.dtype());
    if (stored.shape == sizes_of(tensor.of->logical) && stored.dtype == dtype) continue;
    found.other.push_back(
        fmt::format("{}: {} [{}] in the checkpoint, {} [{}] in this configuration",
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
    if (here.contains(owner) || !wanted.contains(owner)) found.extra.push_back(name);
  }
  return found;
}

void require_none(const fs::path& folder, const Misfit& misfit) {
  if (misfit.empty()) return;
  constexpr std::size_t kShown = 8;
  std::string text;
  if (!misfit.missing.empty()) text += "\n  not in the checkpoint: " + name_list(misfit.missing);
  if (!misfit.extra.empty()) text += "\n  not in this configuration: " + name_list(misfit.extra);
  const std::size_t shown = std::min(misfit.other.size(), kShown);
  for (std::size_t i = 0; i < shown; ++i) text += "\n  " + misfit.other[i];
  if (misfit.other.size() > shown) {
    text += fmt::format("\n  and {} more", misfit.other.size() - shown);
  }
  const auto is_state = [](const std::string& name) { return name.find('/') != name.npos; };
  if (std::ranges::all_of(misfit.missing, is_state) &&
      std::ranges::all_of(misfit.extra, is_state) && std::ranges::all_of(misfit.other, is_state)) {
    text += fmt::format(
        "\n  Its parameters fit, the state of its optimizer does not. To start a new run from "
        "these parameters: checkpoint.init_from = \"{}\" and another run.out",
        folder.string());
  }
  fail_config("checkpoint {} does not fit this configuration:{}", folder.string(), text);
}

void require_fit(const fs::path& folder,
                 const CheckpointIndex& index,
                 const std::vector<CheckpointTensor>& tensors,
                 const std::vector<std::string>* others) {
  require_none(folder, find_misfit(index, tensors, others));
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
