#include "kernel/train/run/starting_point.hpp"

#include <algorithm>
#include <filesystem>

#include "kernel/checkpoint/stored_reader.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

constexpr std::size_t kShownChanges = 30;

std::string changed_since(const std::string& before, const ConfigChanges& changes) {
  std::vector<std::string> lines;
  try {
    lines = changes(before);
  } catch (const Error& error) {
    const std::string_view text = error.what();
    return fmt::format(
        "which keys changed is not known, this version does not take the checkpoint's "
        "configuration: {}",
        text.substr(0, text.find('\n')));
  }
  if (lines.empty()) return "no key has changed";
  const std::size_t shown = std::min(lines.size(), kShownChanges);
  std::string text = "changed since then:";
  for (std::size_t i = 0; i < shown; ++i) text += "\n  " + lines[i];
  if (shown < lines.size()) text += fmt::format("\n  and {} more", lines.size() - shown);
  return text;
}

void tell_initial(const Checkpoints::Initial& initial) {
  std::string text = fmt::format(
      "starting with {} parameters of {}", initial.taken.size(), initial.folder.string());
  if (!initial.fresh.empty()) {
    text += "\n  new, with initial values: " + name_list(initial.fresh);
  }
  if (!initial.left_out.empty()) text += "\n  left out: " + name_list(initial.left_out);
  log_info("{}", text);
}

}  // namespace

StartingPoint find_starting_point(const CheckpointSection& section,
                                  Checkpoints& checkpoints,
                                  TrainingState& state,
                                  bool tell,
                                  const ConfigChanges& changes) {
  namespace fs = std::filesystem;
  if (const auto loaded = checkpoints.load(section.resume, state.tensors(), state.names())) {
    state.continue_from(*loaded);
    if (tell && changes) {
      log_info("going on from {}; {}",
               loaded->folder.string(),
               changed_since(loaded->info.config, changes));
    }
    std::error_code error;
    const bool same = fs::equivalent(loaded->folder.parent_path(), section.out, error) && !error;
    return {loaded->folder.string(), same, loaded->info};
  }
  if (!section.init_from.empty()) {
    const Checkpoints::Initial initial = checkpoints.initialize(
        section.init_from, state.parameters(), state.parameter_names(), section.init_skip);
    state.begin_with_loaded();
    if (tell) tell_initial(initial);
  }
  return {};
}

}  // namespace tessera
