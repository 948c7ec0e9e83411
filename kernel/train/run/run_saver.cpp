#include "kernel/train/run/run_saver.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "kernel/train/data/data_files.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPause = std::chrono::seconds(1);

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

CheckpointArguments checkpoint_arguments(const Training& training) {
  const RunConfig& config = training.config();
  const Rank& rank = training.model.rank();
  return {.folder = config.checkpoint.out,
          .keep = config.checkpoint.keep,
          .run = config.run.name,
          .mesh = rank.mesh.get(),
          .device = rank.device.get(),
          .store = training.arguments.identity.store,
          .limits = wait_limits_of(training.setup()),
          .threads = rank.device->threads(),
          .failures = config.checkpoint.failures};
}

}  // namespace

RunSaver::RunSaver(const Training& training, LossWatch& watch, RunReporter& reporter)
    : training_(training),
      watch_(watch),
      reporter_(reporter),
      state_(training.model, training.step),
      checkpoints_(checkpoint_arguments(training)) {}

StartingPoint RunSaver::begin(bool looks) {
  const RunConfig& config = training_.config();
  if (config.checkpoint.save && !looks) checkpoints_.claim();
  StartingPoint start =
      find_starting_point(training_.setup(), checkpoints_, state_, training_.root());
  newest_.folder = start.resumed_from;
  if (looks && !start.over) {  // what is newer is damaged
    fail_config("{} is read-only; this run goes on from {}", config.run.out, newest_.folder);
  }
  if (start.info) {
    newest_.step = start.info->step;
    watch_.continue_from(*start.info);
  }
  const i64 left = config.run.steps - training_.steps();
  if (config.checkpoint.save && left > 0) {
    const i64 every = config.checkpoint.every_steps;
    checkpoints_.require_room(state_.tensors(), every == 0 ? 1 : (left + every - 1) / every);
  }
  if (training_.root() && !config.checkpoint.save) {
    log_warning("no checkpoint of this run will be saved: checkpoint.save = false{}",
                config.observers.empty() ? "; and no observer shows or keeps its losses" : "");
  }
  return start;
}

bool RunSaver::due(bool final) const {
  const CheckpointSection& checkpoint = training_.config().checkpoint;
  if (!checkpoint.save) return false;
  const bool every = checkpoint.every_steps > 0 && training_.steps() % checkpoint.every_steps == 0;
  return every || failed_saves_ > 0 || put_off_ || final;
}

bool RunSaver::may_save(bool due, bool final) {
  put_off_ = due && !watch_.proven();
  if (put_off_ && final) tell_not_proven();
  const bool save = due && (!put_off_ || (final && watch_.skips()));
  look((save || final) && watch_.rewinds() && training_.config().checkpoint.asynchronous);
  if ((save || final) && failed_later_ != nullptr) std::rethrow_exception(failed_later_);
  if (save || final) require_same_files();
  return save;
}

// With "skip" the update of a bad step was left out, and the work before it would be lost.
void RunSaver::tell_not_proven() const {
  if (!training_.root()) return;
  const i64 step = training_.steps();
  if (watch_.skips()) {
    log_warning("step {} was bad, and so may be the parameters that its checkpoint holds", step);
  } else {
    log_warning("no checkpoint of step {} is saved: no step was good after the last bad one{}",
                step,
                newest_.folder.empty() ? "" : "; the newest is " + newest_.folder);
  }
}

// A copy that is not finite fails to be saved, which ranks learn at different steps. With
// "rewind" the failure waits for the next step that saves, or is the last: losses are judged
// there, and all ranks have waited until they know how the save has ended.
void RunSaver::look(bool wait) {
  const auto begin = Clock::now();
  try {
    tell_saved(checkpoints_.saved_later(wait));
    if (wait) held_up_ = seconds_since(begin);
  } catch (const SharedError&) {
    if (!watch_.rewinds()) throw;
    failed_later_ = std::current_exception();
  }
}

// A checkpoint says on which data it was trained.
void RunSaver::require_same_files() {
  try {
    training_.plane.all("data", [this] {
      require_unchanged(*training_.setup().dataset);
      return std::string();
    });
  } catch (const SharedError&) {
    end_save();
    throw;
  }
}

void RunSaver::save(bool final) {
  training_.model.rank().progress->begin_action("the save of step",
                                                fmt::format("{}", training_.steps()));
  if (training_.config().checkpoint.asynchronous) return save_later();
  while (!try_to_save(final) && final) std::this_thread::sleep_for(kPause);
}

// Training goes on once the values are copied. One save at a time: this waits for the last.
void RunSaver::save_later() {
  const auto begin = Clock::now();
  tell_saved(checkpoints_.saved_later(true));
  checkpoints_.save_later(
      info(), state_.tensors(), [this, step = training_.steps()] { reporter_.emit(Saving{step}); });
  watch_.copied();
  waited_ = std::exchange(held_up_, 0) + seconds_since(begin);
}

// A failure that all ranks know of, a full disk, may pass: then the next step tries again, or,
// after the last one, this step a little later.
bool RunSaver::try_to_save(bool final) {
  const auto begin = Clock::now();
  const i64 step = training_.steps(), failures = training_.config().checkpoint.failures;
  try {
    const auto folder =
        checkpoints_.save(info(), state_.tensors(), [&] { reporter_.emit(Saving{step}); });
    newest_ = {folder.string(), step};
  } catch (const SharedError& error) {
    if (++failed_saves_ > failures) throw;
    if (training_.root()) {
      log(LogLevel::error,
          fmt::format("{}; trying again {}, {} of checkpoint.failures = {}",
                      error.what(),
                      final ? "in a moment" : "at the next step",
                      failed_saves_,
                      failures));
    }
    return false;
  }
  failed_saves_ = 0;
  watch_.copied();
  watch_.saved();
  const double seconds = seconds_since(begin);
  reporter_.emit(Saved{step, newest_.folder, seconds, seconds});
  return true;
}

void RunSaver::finish() { tell_saved(checkpoints_.saved_later(true)); }

void RunSaver::tell_saved(const std::optional<Checkpoints::Saved>& saved) {
  if (!saved) return;
  newest_ = {saved->folder.string(), saved->step};
  watch_.saved();
  reporter_.emit(Saved{saved->step, newest_.folder, saved->seconds, waited_});
}

CheckpointInfo RunSaver::info() const {
  CheckpointInfo info = state_.info(training_.arguments.config_text);
  watch_.save_to(info);
  return info;
}

void RunSaver::end_save() {
  try {
    if (failed_later_ != nullptr) std::rethrow_exception(std::exchange(failed_later_, nullptr));
    tell_saved(checkpoints_.saved_later(true));
  } catch (const Error& error) {
    watch_.save_failed();
    if (training_.root()) log_warning("{}", error.what());
  }
}

// The update before a save may have broken the parameters, which only the next step shows.
void RunSaver::give_up_newest_if_bad() {
  if (!watch_.doubts(newest_.step)) return;
  const std::optional<std::filesystem::path> before = checkpoints_.give_up(newest_.folder);
  if (!before) return;
  if (training_.root()) {
    log_warning("no batch has a good loss with the parameters of {0}: it is {0}.bad now",
                newest_.folder);
  }
  newest_.folder = before->string();
  watch_.gave_up_newest();
}

StartingPoint RunSaver::go_back() {
  const auto loaded = checkpoints_.load(newest_.folder, state_.tensors(), state_.names());
  newest_.step = loaded->info.step;
  state_.continue_from(*loaded);
  watch_.continue_from(loaded->info);
  const StartingPoint& start = reporter_.start();
  const bool own = newest_.folder != start.resumed_from || start.same_run;
  return {newest_.folder, own, loaded->info};
}

}  // namespace tessera
