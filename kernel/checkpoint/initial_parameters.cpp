#include "kernel/checkpoint/initial_parameters.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "kernel/checkpoint/stored_reader.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

}  // namespace

InitialParameters match_initial(const std::filesystem::path& folder,
                                const CheckpointIndex& index,
                                const std::vector<std::string>& names,
                                const std::vector<std::string>& skip) {
  InitialParameters initial{folder, {}, {}, {}};
  std::set<std::string> here(names.begin(), names.end()), all = here;
  for (const auto& [name, tensor] : index.tensors) {
    if (name.find('/') == std::string::npos) all.insert(name);  // no state of the optimizer
  }
  for (const std::string& pattern : skip) {
    const bool any =
        std::ranges::any_of(all, [&](const auto& name) { return matches(pattern, name); });
    if (!any) {
      Error(fmt::format("{} matches no parameter", quote(pattern)), ErrorKind::configuration)
          .add(ErrorFrame::Kind::key, "checkpoint.init_skip")
          .raise();
    }
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
  if (!initial.taken.empty()) return initial;
  const bool skipped = std::ranges::any_of(
      initial.fresh, [&](const auto& name) { return index.tensors.contains(name); });
  std::string instead = "checkpoint.init_skip leaves out all that both have";
  if (!skipped) {
    instead = "it has " + (initial.left_out.empty() ? "none" : name_list(initial.left_out));
  }
  fail_config("checkpoint.init_from: {} has no parameter that this run takes; {}",
              folder.string(),
              instead);
}

}  // namespace tessera
