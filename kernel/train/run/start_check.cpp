#include "kernel/train/run/start_check.hpp"

#include <filesystem>
#include <string_view>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/initial_parameters.hpp"
#include "kernel/train/run/starting_point.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

void check_meaning(const fs::path& folder, const CheckpointInfo& info, const RunSetup& setup) {
  Meaning meaning = compare_meaning(info, setup);
  warn_of_unknown(folder, meaning);
  meaning.allow(setup.config->checkpoint.init_changes);
  if (meaning.same()) return;
  fail_config(
      "checkpoint.init_from: the parameters of {} mean something else here:{}\n  take its values, "
      "or name what may differ in checkpoint.init_changes",
      folder.string(),
      meaning.text());
}

bool is_named(const CheckpointSection& section) {
  return section.resume != "auto" && section.resume != "none";
}

// Where checkpoint.resume leads, the newest first.
std::vector<fs::path> candidates(const CheckpointSection& section) {
  if (section.resume == "none") return {};
  return is_named(section) ? std::vector{find_checkpoints(section.resume).front()}
                           : complete_steps(section.out);
}

}  // namespace

void StartCheck::require_found() const {
  const CheckpointSection& section = setup_.config->checkpoint;
  const auto located = [&](std::string_view key, auto&& body) {
    try {
      body();
    } catch (const ConfigError& error) {
      fail_config(
          "{}: [checkpoint] {}: {}", setup_.maker->origin("checkpoint", key), key, error.what());
    }
  };
  located("resume", [&] {
    if (is_named(section)) find_checkpoints(section.resume);
    require_unmixed(*setup_.config);
  });
  if (section.init_from.empty()) {
    located("init_skip", [&] {
      if (!section.init_skip.empty()) fail_config("has no effect without init_from");
    });
    located("init_changes", [&] {
      if (!section.init_changes.empty()) fail_config("has no effect without init_from");
    });
    return;
  }
  located("init_from", [&] {
    if (is_named(section)) fail_config("has no effect where resume names a checkpoint");
    find_checkpoints(section.init_from);
  });
}

void StartCheck::require_may_go_on() {
  for (const fs::path& folder : candidates(setup_.config->checkpoint)) {
    try {
      index_ = read_index(folder);
    } catch (const Error&) {  // a damaged one: loading goes past it, and says so
      continue;
    }
    run_ = going_on({index_.info, folder}, setup_);
    return tessera::require_may_go_on(*run_, setup_);
  }
}

void StartCheck::add(const TrainingState& state) {
  parameters_ = state.parameter_names();
  if (!run_) return;
  const std::vector<std::string> names = state.names();
  misfit_.add(find_misfit(index_, state.tensors(), &names));
}

void StartCheck::require_fit() const {
  if (!run_) return require_initial();
  try {
    require_none(run_->from.folder, misfit_);
  } catch (const ConfigError& error) {
    fail_misfit(*run_, error.what());
  }
  warn_of_unknown(run_->from.folder, run_->meaning);
  if (!run_->over) warn_of_length(run_->since, setup_);
}

// Checks what a new run takes from another run's checkpoint. A run that goes on takes nothing.
void StartCheck::require_initial() const {
  const CheckpointSection& section = setup_.config->checkpoint;
  if (section.init_from.empty()) return;
  if (section.resume == "auto" && !complete_steps(section.out).empty()) return;
  try {
    const fs::path folder = find_checkpoints(section.init_from).front();
    const CheckpointIndex index = read_index(folder);
    match_initial(folder, index, parameters_, section.init_skip);
    check_meaning(folder, index.info, setup_);
  } catch (const ConfigError& error) {
    const ErrorFrame* const found = error.frame(ErrorFrame::Kind::key);
    const std::string key = found != nullptr ? found->text : "checkpoint.init_from";
    const std::string place = setup_.maker->origin("checkpoint", key.substr(key.find('.') + 1));
    rethrow_with(ErrorFrame::Kind::place, place);
  }
}

}  // namespace tessera
