#include "kernel/train/run/starting_point.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/checkpoint/together.hpp"
#include "kernel/config/config.hpp"
#include "kernel/config/curve_keys.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
constexpr std::size_t kShownChanges = 30;

// What differs between a checkpoint's configuration and that of this run.
struct Changes {
  std::vector<Difference> keys;
  std::string unknown;  // why they are not known
};

Changes changes_since(const CheckpointInfo& info, const RunSetup& setup) {
  try {
    return {differences(*setup.resolve(info.config).tree, *setup.tree), ""};
  } catch (const Error& error) {
    const std::string_view text = error.what();
    return {{}, std::string(text.substr(0, text.find('\n')))};
  }
}

std::string indented(const std::vector<std::string>& lines) {
  const std::size_t shown = std::min(lines.size(), kShownChanges);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += "\n  " + lines[i];
  if (shown < lines.size()) text += fmt::format("\n  and {} more", lines.size() - shown);
  return text;
}

std::string told(const Changes& since) {
  if (!since.unknown.empty()) {
    return fmt::format(
        "which keys changed is not known, this version does not take the checkpoint's "
        "configuration: {}",
        since.unknown);
  }
  const std::vector<std::string> lines = changes(since.keys);
  return lines.empty() ? "no key has changed" : "changed since then:" + indented(lines);
}

// Where the training of a checkpoint was to end; none: this version does not know it.
std::optional<i64> last_step_of(const CheckpointInfo& info, const RunSetup& setup) {
  try {
    return setup.resolve(info.config).run.run.steps;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// A curve is finished with the keys that it was trained with. Who names the checkpoint to go on
// from knows that it is there.
void require_same_curve(const Checkpoints::Loaded& loaded,
                        const Changes& since,
                        const RunSetup& setup) {
  const RunConfig& config = *setup.config;
  const i64 step = loaded.info.step;
  const bool over = step >= config.run.steps;
  const bool finished = over || step >= last_step_of(loaded.info, setup).value_or(step + 1);
  if (!finished || (!over && config.checkpoint.resume != "auto")) return;
  std::vector<Difference> shaping;
  std::ranges::copy_if(since.keys, std::back_inserter(shaping), [](const Difference& key) {
    return !key.derived && shapes_curve(key);
  });
  if (shaping.empty()) return;
  fail_config(
      "{}: this run is finished, at step {}, and was trained with other keys:{}\n  set run.out for "
      "a run of its own (checkpoint.init_from = \"{}\" begins with these parameters), or run.steps "
      "above {} and checkpoint.resume = \"{}\" to go on with the keys of now",
      config.run.out,
      step,
      indented(changes(shaping)),
      loaded.folder.string(),
      step,
      loaded.folder.string());
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
                                        const RunSetup& setup) {
  try {
    return checkpoints.load(section.resume, state.tensors(), state.names());
  } catch (const TogetherError& error) {
    if (error.exit_code() != ConfigError("").exit_code()) throw;
    const fs::path from = section.resume == "auto" ? section.out : section.resume;
    for (const fs::path& folder : find_checkpoints(from)) {
      std::optional<CheckpointIndex> index;
      try {
        index = read_index(folder);
      } catch (const Error&) {  // a damaged one, which loading went past
        continue;
      }
      fail_config("{}\n  {}", error.what(), told(changes_since(index->info, setup)));
    }
    throw;
  }
}

void tell_resumed(const Checkpoints::Loaded& loaded, const Changes& since) {
  log_info("going on from {}; {}", loaded.folder.string(), told(since));
}

void tell_over(const Checkpoints::Loaded& loaded, bool own) {
  log_info(
      "{}: {} is at step {} = run.steps; nothing is trained, and no file is changed; set a larger "
      "run.steps to go on, or another run.out for a run of its own",
      own ? "this run is already finished" : "there is nothing to train",
      loaded.folder.string(),
      loaded.info.step);
}

}  // namespace

void require_unmixed(const RunConfig& config) {
  const CheckpointSection& section = config.checkpoint;
  if (!section.save && !within(section.out, config.run.out)) return;
  require_no_mixture(section.out, section.resume);
}

StartingPoint find_starting_point(const RunSetup& setup,
                                  Checkpoints& checkpoints,
                                  TrainingState& state,
                                  bool tell) {
  const RunConfig& config = *setup.config;
  const CheckpointSection& section = config.checkpoint;
  if (const auto loaded = load(section, checkpoints, state, setup)) {
    const Changes since = changes_since(loaded->info, setup);
    const bool own = same_run(*loaded, config);
    if (own) require_same_curve(*loaded, since, setup);
    state.continue_from(*loaded);
    const bool over = loaded->info.step >= config.run.steps;
    if (tell) over ? tell_over(*loaded, own) : tell_resumed(*loaded, since);
    return {loaded->folder.string(), own, loaded->info, over, changes(since.keys)};
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
