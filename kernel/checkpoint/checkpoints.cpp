#include "kernel/checkpoint/checkpoints.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <exception>
#include <set>
#include <system_error>

#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/rank_part.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

// No path holds a zero byte.
std::string pack(const std::vector<fs::path>& paths) {
  std::string text;
  for (const fs::path& path : paths) text += path.string() + '\0';
  return text;
}

std::vector<fs::path> unpack(const std::string& text) {
  std::vector<fs::path> paths;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\0', begin);
    paths.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return paths;
}

// Phase two: all parts are on the disk; make them a checkpoint.
void commit(const CheckpointInfo& info,
            const std::vector<std::string>& proofs,
            const fs::path& temporary,
            const fs::path& folder,
            const std::function<void()>& before_commit) {
  CheckpointIndex index;
  index.info = info;
  for (std::size_t rank = 0; rank < proofs.size(); ++rank) {
    index.merge(read_part(temporary, static_cast<i64>(rank), proofs[rank]));
  }
  index.check_tiling();
  if (before_commit) before_commit();
  write_synced(temporary / kIndexName, index.to_json());
  sync_folder(temporary);
  replace_folder(temporary, folder);
}

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

// Sorts the names of the run and the checkpoint's parameters into what is taken and what is not.
void match_initial(const CheckpointIndex& index,
                   const std::vector<std::string>& names,
                   const std::vector<std::string>& skip,
                   Checkpoints::Initial& initial) {
  std::set<std::string> here(names.begin(), names.end()), all = here;
  for (const auto& [name, tensor] : index.tensors) {
    if (name.find('/') == std::string::npos) all.insert(name);  // no state of the optimizer
  }
  for (const std::string& pattern : skip) {
    const bool any =
        std::ranges::any_of(all, [&](const auto& name) { return matches(pattern, name); });
    if (!any) fail_config("checkpoint.init_skip: \"{}\" is the name of no parameter", pattern);
  }
  for (const std::string& name : all) {
    const bool skipped =
        std::ranges::any_of(skip, [&](const auto& pattern) { return matches(pattern, name); });
    const bool there = index.tensors.contains(name);
    if (!here.contains(name)) {
      initial.left_out.push_back(name);
    } else {
      (there && !skipped ? initial.taken : initial.fresh).push_back(name);
    }
  }
  if (!initial.taken.empty()) return;
  fail_config("checkpoint.init_from: {} has no parameter that this run takes; it has {}",
              initial.folder.string(),
              name_list(initial.left_out));
}

}  // namespace

Checkpoints::Checkpoints(const CheckpointArguments& arguments)
    : arguments_(arguments),
      together_(arguments.store,
                arguments.mesh->rank(),
                arguments.mesh->world_size(),
                arguments.timeout) {}

void Checkpoints::claim() {
  together_.root("claim", [this] {
    if (lock_ == nullptr) lock_ = std::make_unique<FolderLock>(arguments_.folder);
    return std::string();
  });
}

fs::path Checkpoints::save(const CheckpointInfo& info,
                           const std::vector<CheckpointTensor>& tensors,
                           const std::function<void()>& before_commit) {
  const CheckpointArguments& a = arguments_;
  const bool root = a.mesh->rank() == 0;
  try {
    claim();
    write(info, tensors, before_commit);
  } catch (const Error& error) {
    if (root) {
      std::error_code ignored;
      fs::remove_all(temporary_folder(a.folder, info.step, a.run), ignored);
    }
    const std::string text = fmt::format(
        "saving step {} failed, older checkpoints are whole: {}", info.step, error.what());
    if (dynamic_cast<const TogetherError*>(&error) != nullptr) {
      throw TogetherError(text, error.exit_code());
    }
    throw Error(text, error.exit_code());
  }
  if (root && a.keep > 0) {
    try {  // alone: the checkpoint is there, so nothing of this fails the run
      remove_old(a.folder, info.step, a.keep, a.run);
    } catch (const std::exception& error) {
      log_warning("removing old checkpoints: {}", error.what());
    }
  }
  return step_folder(a.folder, info.step);
}

void Checkpoints::write(const CheckpointInfo& info,
                        const std::vector<CheckpointTensor>& tensors,
                        const std::function<void()>& before_commit) {
  const CheckpointArguments& a = arguments_;
  const fs::path temporary = temporary_folder(a.folder, info.step, a.run);
  together_.root("prepare", [&] {
    remove_stale(a.folder, a.run);
    fs::create_directory(temporary);
    return std::string();
  });
  const std::vector<std::string> proofs =
      together_.all("write", [&] { return write_part(temporary, *a.mesh, *a.device, tensors); });
  together_.root("commit", [&] {
    commit(info, proofs, temporary, step_folder(a.folder, info.step), before_commit);
    return std::string();
  });
}

std::vector<fs::path> Checkpoints::find(const std::string& resume) const {
  return unpack(together_.root("find", [&] {
    return pack(resume == "auto" ? complete_steps(arguments_.folder) : find_checkpoints(resume));
  }));
}

std::optional<Checkpoints::Loaded> Checkpoints::load(const std::string& resume,
                                                     const std::vector<CheckpointTensor>& tensors,
                                                     const std::vector<std::string>& others) {
  if (resume == "none") return std::nullopt;
  std::vector<fs::path> candidates = find(resume);
  if (resume != "auto") candidates.resize(1);  // what was asked for, or nothing
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    try {
      return load_from(candidates[i], tensors, others);
    } catch (const TogetherError& error) {
      const bool misfit = error.exit_code() == 2;  // so would the older ones
      if (misfit || i + 1 == candidates.size()) throw;
      if (arguments_.mesh->rank() == 0) {
        log_warning("{}\nfalling back to {}", error.what(), candidates[i + 1].string());
      }
    }
  }
  return std::nullopt;
}

Checkpoints::Loaded Checkpoints::load_from(const fs::path& folder,
                                           const std::vector<CheckpointTensor>& tensors,
                                           const std::vector<std::string>& others) const {
  CheckpointIndex index;
  std::vector<HostBytes> contents;
  together_.all("read", [&] {
    index = read_index(folder);
    contents = read_tensors(folder, index, tensors, &others);
    return std::string();
  });
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    arguments_.device->write(tensors[t].tensor, contents[t].data());
  }
  return {index.info, folder};
}

Checkpoints::Initial Checkpoints::initialize(const std::string& named,
                                             const std::vector<CheckpointTensor>& parameters,
                                             const std::vector<std::string>& names,
                                             const std::vector<std::string>& skip) {
  Initial initial;
  initial.folder = find(named).front();
  std::vector<CheckpointTensor> wanted;
  std::vector<HostBytes> contents;
  together_.all("read", [&] {
    const CheckpointIndex index = read_index(initial.folder);
    match_initial(index, names, skip, initial);
    for (const CheckpointTensor& tensor : parameters) {
      if (std::ranges::binary_search(initial.taken, tensor.name)) wanted.push_back(tensor);
    }
    try {
      contents = read_tensors(initial.folder, index, wanted, nullptr);
    } catch (const ConfigError& error) {
      fail_config(
          "{}\n  checkpoint.init_skip = [\"NAME\"] leaves a parameter at its initial values; * "
          "stands for any text",
          error.what());
    }
    return std::string();
  });
  for (std::size_t t = 0; t < wanted.size(); ++t) {
    arguments_.device->write(wanted[t].tensor, contents[t].data());
  }
  return initial;
}

}  // namespace tessera
