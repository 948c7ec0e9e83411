#include "kernel/train/run/starting_point.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/checkpoint/together.hpp"
#include "kernel/config/config.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
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

void tell_initial(const InitialParameters& initial) {
  std::string text = fmt::format(
      "starting with {} parameters of {}", initial.taken.size(), initial.folder.string());
  if (!initial.fresh.empty()) {
    text += "\n  new, with initial values: " + name_list(initial.fresh);
  }
  if (!initial.left_out.empty()) text += "\n  left out: " + name_list(initial.left_out);
  log_info("{}", text);
}

bool within(const fs::path& path, const fs::path& folder) {
  const fs::path from = fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(folder));
  return !from.empty() && *from.begin() != "..";
}

// Checkpoints may lie apart from the other files of their run.
bool same_run(const Checkpoints::Loaded& loaded, const RunConfig& config) {
  std::error_code error;
  if (!fs::equivalent(loaded.folder.parent_path(), config.checkpoint.out, error)) return false;
  if (within(config.checkpoint.out, config.run.out)) return true;
  try {
    const fs::path out =
        Config::stored(loaded.info.config, "the checkpoint").resolve_path("run.out");
    return fs::equivalent(out, config.run.out, error);
  } catch (const ConfigError&) {
    return false;
  }
}

// What does not fit is told by its keys too.
std::optional<Checkpoints::Loaded> load(const CheckpointSection& section,
                                        Checkpoints& checkpoints,
                                        TrainingState& state,
                                        const ConfigChanges& changes) {
  try {
    return checkpoints.load(section.resume, state.tensors(), state.names());
  } catch (const TogetherError& error) {
    if (error.exit_code() != ConfigError("").exit_code() || !changes) throw;
    const fs::path from = section.resume == "auto" ? section.out : section.resume;
    for (const fs::path& folder : find_checkpoints(from)) {
      std::optional<CheckpointIndex> index;
      try {
        index = read_index(folder);
      } catch (const Error&) {  // a damaged one, which loading went past
        continue;
      }
      fail_config("{}\n  {}", error.what(), changed_since(index->info.config, changes));
    }
    throw;
  }
}

}  // namespace

void require_unmixed(const RunConfig& config) {
  const CheckpointSection& section = config.checkpoint;
  if (!section.save && !within(section.out, config.run.out)) return;
  require_no_mixture(section.out, section.resume);
}

StartingPoint find_starting_point(const RunConfig& config,
                                  Checkpoints& checkpoints,
                                  TrainingState& state,
                                  bool tell,
                                  const ConfigChanges& changes) {
  const CheckpointSection& section = config.checkpoint;
  if (const auto loaded = load(section, checkpoints, state, changes)) {
    state.continue_from(*loaded);
    if (tell && changes) {
      log_info("going on from {}; {}",
               loaded->folder.string(),
               changed_since(loaded->info.config, changes));
    }
    return {loaded->folder.string(), same_run(*loaded, config), loaded->info};
  }
  if (!section.init_from.empty()) {
    const InitialParameters initial = checkpoints.initialize(
        section.init_from, state.parameters(), state.parameter_names(), section.init_skip);
    state.begin_with_loaded();
    if (tell) tell_initial(initial);
  }
  return {};
}

}  // namespace tessera
