#include "kernel/train/run/starting_point.hpp"

#include <unistd.h>

#include <cerrno>
#include <optional>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/comm/control_plane/control_plane.hpp"
#include "kernel/train/run/going_on.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

void tell_initial(const InitialParameters& initial) {
  std::string text = fmt::format(
      "starting with {} parameters of {}", initial.taken.size(), initial.folder.string());
  if (!initial.fresh.empty()) {
    text += "\n  new, with initial values: " + name_list(initial.fresh);
  }
  if (!initial.left_out.empty()) text += "\n  left out: " + name_list(initial.left_out);
  log_info("{}", text);
}

// Loads what the run goes on from, once it is known that it may; nothing where it begins anew.
std::optional<GoingOn> load(const RunSetup& setup, Checkpoints& checkpoints, TrainingState& state) {
  std::optional<GoingOn> run;
  const auto judge = [&](const Checkpoints::Loaded& from) {
    run.reset();
    GoingOn found = going_on(from, setup);
    require_may_go_on(found, setup);
    run = std::move(found);
  };
  try {
    const std::string& resume = setup.config->checkpoint.resume;
    const auto loaded = checkpoints.load(resume, state.tensors(), state.names(), judge);
    if (!loaded) return std::nullopt;
    state.continue_from(*loaded);
    return run;
  } catch (const SharedError& error) {
    if (!run || error.kind() != ErrorKind::configuration) throw;
    fail_misfit(*run, error.what());
  }
}

void tell(const GoingOn& run) {
  const std::string folder = run.from.folder.string();
  if (!run.over) {
    log_info("going on from {}; {}", folder, told(run.since));
    return;
  }
  log_info(
      "{}: {} is at step {} = run.steps; nothing is trained, and no file is changed; set a larger "
      "run.steps to go on, or another run.out for a run of its own",
      run.same_run ? "this run is already finished" : "there is nothing to train",
      folder,
      run.from.info.step);
}

}  // namespace

void require_unmixed(const RunConfig& config) {
  const CheckpointSection& section = config.checkpoint;
  if (!section.save && !within(section.out, config.run.out)) return;
  require_no_mixture(section.out, section.resume);
}

bool only_looks(const RunConfig& config) {
  const CheckpointSection& section = config.checkpoint;
  if (section.resume != "auto") return false;
  const auto closed = [](const std::string& folder) {
    return ::access(folder.c_str(), W_OK) != 0 && (errno == EROFS || errno == EACCES);
  };
  if (!closed(config.run.out) && (!section.save || !closed(section.out))) return false;
  for (const StepFolder& newest : step_folders(section.out)) {
    if (newest.complete) return newest.step >= config.run.steps;
  }
  return false;
}

StartingPoint find_starting_point(const RunSetup& setup,
                                  Checkpoints& checkpoints,
                                  TrainingState& state,
                                  bool root) {
  const CheckpointSection& section = setup.config->checkpoint;
  if (const auto run = load(setup, checkpoints, state)) {
    if (root) tell(*run);
    return {run->from.folder.string(),
            run->same_run,
            run->from.info,
            run->over,
            changes(run->since.keys)};
  }
  if (!section.init_from.empty()) {
    const InitialParameters initial = checkpoints.initialize(
        section.init_from, state.parameters(), state.parameter_names(), section.init_skip);
    state.begin_with_loaded();
    if (root) tell_initial(initial);
  }
  return {};
}

}  // namespace tessera
