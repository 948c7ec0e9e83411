#include "kernel/train/run/trainer.hpp"

#include <malloc.h>

#include <chrono>
#include <cmath>
#include <deque>
#include <exception>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "kernel/checkpoint/checkpoints.hpp"
#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/together.hpp"
#include "kernel/train/data/data_files.hpp"
#include "kernel/train/execution/agree_plans.hpp"
#include "kernel/train/execution/evaluation.hpp"
#include "kernel/train/execution/recorder.hpp"
#include "kernel/train/execution/train_step.hpp"
#include "kernel/train/run/flight_records.hpp"
#include "kernel/train/run/largest_memory.hpp"
#include "kernel/train/run/loss_watch.hpp"
#include "kernel/train/run/mover.hpp"
#include "kernel/train/run/resolved_file.hpp"
#include "kernel/train/run/run_events.hpp"
#include "kernel/train/run/run_history.hpp"
#include "kernel/train/run/text_sampler.hpp"
#include "kernel/train/run/training_state.hpp"
#include "kernel/train/run/warm_up.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"
#include "tessera/observer.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;
using WallTime = Recorder::WallClock::time_point;
constexpr auto kPause = std::chrono::seconds(1);

// One thread at a time: where another allocator stands in for glibc's (a sanitizer's, LD_PRELOAD),
// the first call makes glibc's own heap, and a second one meanwhile would find it half made.
void free_pages() {
  static std::mutex one;
  const std::lock_guard lock(one);
  malloc_trim(0);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A rank that lives may take its time, as with a large checkpoint; one that does not, none.
Patience patience_of(const RankSpec& spec) { return {spec.init_timeout, spec.timeout}; }

class Trainer {
 public:
  explicit Trainer(const TrainerArguments& arguments)
      : arguments_(arguments),
        setup_(*arguments.setup),
        config_(*setup_.config),
        spec_(rank_spec_of(setup_)),
        rank_(make_rank(spec_, arguments.identity, warm_up_of(setup_))),
        together_(arguments.identity.store,
                  rank_.mesh->rank(),
                  rank_.mesh->world_size(),
                  patience_of(spec_)),
        lock_(claim()),
        model_(rank_, setup_),
        step_(model_),
        evaluation_(model_),
        state_(model_, step_),
        checkpoints_({.folder = config_.checkpoint.out,
                      .keep = config_.checkpoint.keep,
                      .run = config_.run.name,
                      .mesh = rank_.mesh.get(),
                      .device = rank_.device.get(),
                      .store = arguments.identity.store,
                      .patience = patience_of(spec_),
                      .threads = rank_.device->threads(),
                      .failures = config_.checkpoint.failures}) {
    if (rank_.communicator != nullptr) {
      agree_plans(step_.plan(), *rank_.mesh, *arguments.identity.store, spec_.init_timeout);
    }
    model_.initialize(config_.run.seed);
    step_.observe(recorder_);
  }

  bool run() {
    start();
    begun_ = true;
    if (start_.over) return true;  // no file is changed: they tell of keys that trained
    step_.prepare();
    if (watch_.skips()) {
      step_.refuse_if([this](double loss, FoundInf found) { return refuse(loss, found); });
    }
    free_pages();  // host copies of initial or loaded values are gone
    make_observers();
    recorded_ = agree_on_records();
    const auto begin = Clock::now();
    const i64 last = config_.run.steps;
    const RunStart started = announce();
    if (root())
      history_.begin(run_part(arguments_, *rank_.device, started, start_), start_.same_run);
    if (arguments_.begin) arguments_.begin();
    bool stopped = false;
    while (step_.state().steps() < last && !stopped) {
      if (arguments_.stop && arguments_.stop()) step_.state().request_stop();
      if (arguments_.step) arguments_.step(step_.state().steps() + 1);
      if (watch_.passed_over(step_.state().steps() + 1)) {
        pass_over();
      } else {
        run_step();
      }
      stopped = step_.state().stopping();
      if (step_.state().steps() == recorded_.last || stopped || step_.state().steps() == last)
        tell_records();
      const std::optional<BadStep> bad = after_step(stopped);
      if (bad) go_back(*bad);
    }
    const bool done = step_.state().steps() >= last;
    emit(RunEnd{step_.state().steps(), seconds_since(begin), !done});
    history_.end(step_.state().steps(), done ? "finished" : "stopped");
    return done;
  }

  void fail_run(const std::exception& error) noexcept {
    try {
      if (arguments_.failed) arguments_.failed(error);
      rank_.abort(error.what());
      const auto* known = dynamic_cast<const Error*>(&error);
      const bool refused = known != nullptr && known->exit_code() == ConfigError("").exit_code();
      const bool told = !begun_ && dynamic_cast<const TogetherError*>(&error) != nullptr;
      if (rank_.communicator != nullptr && !refused && !told) {
        add_flight_records(*rank_.mesh, config_.run.out, error.what(), step_.replay().replaying());
      }
      emit(Failure{error.what()});
    } catch (const std::exception& second) {
      log_warning("while ending a failed run: {}", second.what());
    }
    history_.end(step_.state().steps(), "failed", error.what());
  }

 private:
  bool root() const { return rank_.mesh->rank() == 0; }
  static bool due(i64 step, i64 every) { return every > 0 && step % every == 0; }

  template <class E>
  void emit(const E& event) {
    for (const auto& observer : observers_) observer->on(event);
  }

  // The run's folder, before anything in it is read or changed.
  std::unique_ptr<FolderLock> claim() const {
    std::unique_ptr<FolderLock> lock;
    together_.root("claim", [&] {
      if (!only_looks(config_)) {
        lock = std::make_unique<FolderLock>(config_.run.out, ".run.lock", "run.out");
      }
      require_unmixed(config_);
      return std::string();
    });
    return lock;
  }

  void start() {
    const bool looks = together_.root("looks", [&] { return lock_ == nullptr ? "1" : ""; }) == "1";
    if (config_.checkpoint.save && !looks) checkpoints_.claim();
    start_ = find_starting_point(setup_, checkpoints_, state_, root());
    newest_.folder = start_.resumed_from;
    if (looks && !start_.over) {  // what is newer is damaged
      fail_config("{} is read-only; this run goes on from {}", config_.run.out, newest_.folder);
    }
    if (start_.info) {
      newest_.step = start_.info->step;
      watch_.continue_from(*start_.info);
      updates_ = start_.info->updates;
    }
    const i64 left = config_.run.steps - step_.state().steps();
    if (config_.checkpoint.save && left > 0) {
      const i64 every = config_.checkpoint.every_steps;
      checkpoints_.require_room(state_.tensors(), every == 0 ? 1 : (left + every - 1) / every);
    }
    if (root() && !config_.checkpoint.save) {
      log_warning("no checkpoint of this run will be saved: checkpoint.save = false{}",
                  config_.observers.empty() ? "; and no observer shows or keeps its losses" : "");
    }
  }

  void make_observers() {
    if (!root()) return;
    ObserverArguments arguments{
        config_.run.out, start_.same_run ? step_.state().steps() : 0, !resolved_.is_of_this_run()};
    for (const ConfiguredObserver& named : config_.observers) {
      observers_.push_back(setup_.maker->make(named.observer, arguments));
    }
  }

  // Observers are on rank 0, and every rank records, counting time from the same moment.
  StepRange agree_on_records() {
    const std::string text = together_.root("observers", [&] {
      StepRange all{std::numeric_limits<i64>::max(), 0};
      for (const auto& observer : observers_) {
        const StepRange range = observer->recorded_steps();
        if (range.last < range.first) continue;
        all = {std::min(all.first, range.first), std::max(all.last, range.last)};
      }
      if (all.last > 0 && all.first > config_.run.steps) {
        log_warning("no step will be traced: steps {} to {} are beyond run.steps = {}",
                    all.first,
                    all.last,
                    config_.run.steps);
      }
      const WallTime now = Recorder::WallClock::now();
      return fmt::format("{} {} {}", all.first, all.last, now.time_since_epoch().count());
    });
    StepRange range;
    WallTime::rep zero = 0;
    std::istringstream(text) >> range.first >> range.last >> zero;
    recorder_.count_from(WallTime(WallTime::duration(zero)));
    return range;
  }

  void run_step() {
    const i64 step = step_.state().steps() + 1;
    if (!recorded_.contains(step)) return step_.run();
    recorder_.begin(step);
    // Where a step is one graph, the first step shows the actions, the others their replay.
    records_.empty() ? step_.run_observed() : step_.run();
    records_.push_back(recorder_.end());
  }

  // Writes the records of all ranks, which are of the same steps.
  void tell_records() {
    if (records_.empty()) return;
    const i64 last = std::min(step_.state().steps(), recorded_.last);
    std::string text;
    const std::vector<TracedReadback> readbacks = step_.readbacks(step_.plan());
    for (const TracedStep& recorded : records_) {
      text += (text.empty() ? "" : ",\n") + recorder_.events(step_.plan(), recorded, readbacks);
    }
    records_.clear();
    const std::vector<std::string> all = together_.collect("trace", std::move(text));
    if (!root()) return;
    try {
      emit(Recorded{recorded_.first, last, trace_file(all)});
    } catch (const Error& error) {  // a training is worth more than its trace
      log(LogLevel::error, error.what());
    }
  }

  // Observers keep files of another configuration, so it is the last that is replaced.
  RunStart announce() {
    RunStart start = run_start(arguments_, rank_, model_, start_, step_);
    emit(start);
    if (!root() || resolved_.is_of_this_run()) return start;
    if (config_.checkpoint.save && !is_utf8(arguments_.config_text)) {
      log_warning(
          "the configuration has bytes that are not UTF-8, in a path perhaps: in a checkpoint they "
          "are \ufffd");
    }
    if (!start_.same_run) history_.set_aside();
    resolved_.replace();
    return start;
  }

  // A bad step ends it before anything is saved. After one that was passed over or left out, what
  // is due waits for a good one.
  std::optional<BadStep> after_step(bool stopped) {
    const i64 step = step_.state().steps();
    const bool last = step == config_.run.steps, final = stopped || last;
    // None more for a stop: a job that was told to stop may have seconds to save.
    const bool validate =
        config_.validation.every_steps > 0 && (due(step, config_.validation.every_steps) || last);
    bool save = config_.checkpoint.save && (due(step, config_.checkpoint.every_steps) ||
                                            failed_saves_ > 0 || put_off_ || final);
    if (due(step, config_.check.replicas_every)) step_.check_replicas();
    if (step_.losses_full() || validate || save || final) {
      if (std::optional<BadStep> bad = report()) return bad;
      if (final || step >= memory_told_at_) tell_memory();
    }
    put_off_ = save && !watch_.proven();
    if (put_off_ && final) tell_not_proven();
    if (put_off_ && !(final && watch_.skips())) save = false;
    look_at_save((save || final) && watch_.rewinds() && config_.checkpoint.asynchronous);
    if ((save || final) && failed_later_ != nullptr) std::rethrow_exception(failed_later_);
    if (save || final) require_same_files();
    if (validate || save) step_.gather_parameters();
    if (validate) {
      const double loss = evaluation_.validate(setup_.validation_samples);
      emit(Validation{step, loss});
      if (!std::isfinite(loss)) {
        BadStep bad{step, loss, fmt::format("the validation loss of step {} is not finite", step)};
        if (!watch_.rewinds()) fail_bad(bad);
        return bad;
      }
      write_sample();
    }
    if (save && config_.checkpoint.asynchronous) {
      save_later();
    } else if (save) {
      while (!try_to_save(final) && final) std::this_thread::sleep_for(kPause);
    }
    if (final) tell_saved(checkpoints_.saved_later(true));
    return std::nullopt;
  }

  // A checkpoint says on which data it was trained.
  void require_same_files() {
    try {
      together_.all("data", [this] {
        require_unchanged(*setup_.dataset);
        return std::string();
      });
    } catch (const TogetherError&) {
      end_save();
      throw;
    }
  }

  // With "skip" the update of a bad step was left out, and the work before it would be lost.
  void tell_not_proven() const {
    if (!root()) return;
    const i64 step = step_.state().steps();
    if (watch_.skips()) {
      log_warning("step {} was bad, and so may be the parameters that its checkpoint holds", step);
    } else {
      log_warning("no checkpoint of step {} is saved: no step was good after the last bad one{}",
                  step,
                  newest_.folder.empty() ? "" : "; the newest is " + newest_.folder);
    }
  }

  void write_sample() {
    const ValidationSection& validation = config_.validation;
    if (validation.sample_tokens == 0) return;
    constexpr double kTemperature = 0.8;
    const std::string text = TextSampler(evaluation_, setup_)
                                 .text(validation.sample_prompt,
                                       validation.sample_tokens,
                                       {kTemperature, config_.run.seed});
    emit(SampleText{step_.state().steps(), validation.sample_prompt, text});
  }

  // Training goes on once the values are copied. One save at a time: this waits for the last.
  void save_later() {
    const auto begin = Clock::now();
    tell_saved(checkpoints_.saved_later(true));
    checkpoints_.save_later(
        info(), state_.tensors(), [this, step = step_.state().steps()] { emit(Saving{step}); });
    watch_.copied();
    waited_ = std::exchange(held_up_, 0) + seconds_since(begin);
  }

  void tell_saved(const std::optional<Checkpoints::Saved>& saved) {
    if (!saved) return;
    newest_ = {saved->folder.string(), saved->step};
    watch_.saved();
    emit(Saved{saved->step, newest_.folder, saved->seconds, waited_});
  }

  // A copy that is not finite fails to be saved, which ranks learn at different steps. With
  // "rewind" the failure waits for the next step that saves, or is the last: losses are judged
  // there, and all ranks have waited until they know how the save has ended.
  void look_at_save(bool wait) {
    const auto begin = Clock::now();
    try {
      tell_saved(checkpoints_.saved_later(wait));
      if (wait) held_up_ = seconds_since(begin);
    } catch (const TogetherError&) {
      if (!watch_.rewinds()) throw;
      failed_later_ = std::current_exception();
    }
  }

  // What is being saved is older than a bad step, and where it fails the newest checkpoint stays.
  void end_save() {
    try {
      if (failed_later_ != nullptr) std::rethrow_exception(std::exchange(failed_later_, nullptr));
      tell_saved(checkpoints_.saved_later(true));
    } catch (const Error& error) {
      watch_.save_failed();
      if (root()) log_warning("{}", error.what());
    }
  }

  // A failure that all ranks know of, a full disk, may pass: then the next step tries again, or,
  // after the last one, this step a little later.
  bool try_to_save(bool final) {
    const auto begin = Clock::now();
    const i64 step = step_.state().steps(), failures = config_.checkpoint.failures;
    try {
      const auto folder = checkpoints_.save(info(), state_.tensors(), [&] { emit(Saving{step}); });
      newest_ = {folder.string(), step};
    } catch (const TogetherError& error) {
      if (++failed_saves_ > failures) throw;
      if (root()) {
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
    emit(Saved{step, newest_.folder, seconds, seconds});
    return true;
  }

  CheckpointInfo info() const {
    CheckpointInfo info = state_.info(arguments_.config_text);
    watch_.save_to(info);
    return info;
  }

  // Losses are the same on all ranks, so all of them end here. They leave together: rank 0's store
  // must outlive the error.
  void fail_bad(const BadStep& bad) {
    end_save();
    std::string back = "no checkpoint was saved before";
    if (!newest_.folder.empty()) {
      back = fmt::format("the newest checkpoint before it is {}{}",
                         newest_.folder,
                         watch_.tried() ? "" : ", and no step was good with its parameters");
    }
    const std::string again = watch_.in_a_row() == 0
                                  ? ""
                                  : fmt::format(" again, more than check.bad_steps = {} in a row",
                                                config_.check.bad_steps);
    const char* help =
        config_.precision.scales_loss() ? "learning rate or precision.loss_scale" : "learning rate";
    together_.all("divergence", [&]() -> std::string {
      fail("{}{}: the run has diverged; {}; a lower {} may help", bad.why, again, back, help);
    });
  }

  // on_bad_step = "skip": asked before each update.
  bool refuse(double loss, FoundInf gradients) {
    const std::optional<BadStep> bad = watch_.judge(step_.state().steps() + 1, loss, gradients);
    if (!bad) return false;
    if (!watch_.once_more()) {
      report();  // the good steps before it
      fail_bad(*bad);
    }
    if (root()) {
      log_warning("{}: its update is left out, {} of check.bad_steps = {} in a row",
                  bad->why,
                  watch_.in_a_row(),
                  config_.check.bad_steps);
    }
    return true;
  }

  // The update before a save may have broken the parameters, which only the next step shows.
  void give_up_newest_if_bad() {
    if (!watch_.doubts(newest_.step)) return;
    const std::optional<std::filesystem::path> before = checkpoints_.give_up(newest_.folder);
    if (!before) return;
    if (root()) {
      log_warning("no batch has a good loss with the parameters of {0}: it is {0}.bad now",
                  newest_.folder);
    }
    newest_.folder = before->string();
    watch_.gave_up_newest();
  }

  // on_bad_step = "rewind": what a resumed run does, within this one.
  void go_back(const BadStep& bad) {
    end_save();
    if (newest_.folder.empty()) fail_bad(bad);
    give_up_newest_if_bad();
    if (!watch_.once_more()) fail_bad(bad);
    const auto loaded = checkpoints_.load(newest_.folder, state_.tensors(), state_.names());
    newest_.step = loaded->info.step;
    state_.continue_from(*loaded);
    watch_.continue_from(loaded->info);
    watch_.pass_over(bad, loaded->info.step);
    std::erase_if(records_, [&](const TracedStep& of) { return of.step > loaded->info.step; });
    updates_ = loaded->info.updates;
    if (root()) {
      log_warning(
          "{}: going back to {}, to pass over its batch; {} of check.bad_steps = {} in a row",
          bad.why,
          newest_.folder,
          watch_.in_a_row(),
          config_.check.bad_steps);
    }
    const bool own = newest_.folder != start_.resumed_from || start_.same_run;
    start_ = {newest_.folder, own, loaded->info};
    observers_.clear();
    make_observers();
    announce();
  }

  // The step's place among the samples is used up, and its line says that nothing was learned.
  void pass_over() {
    pending_.emplace_back(step_.state().steps() + 1);
    step_.state().pass_over();
  }

  // Hands the steps since the last report to the observers, up to the first that is bad.
  std::optional<BadStep> report() {
    const std::vector<StepLosses::Row> rows = step_.losses();
    const i64 first = step_.state().steps() - static_cast<i64>(rows.size() + pending_.size()) + 1;
    auto row = rows.begin();
    for (i64 step = first; step <= step_.state().steps(); ++step) {
      if (!pending_.empty() && pending_.front() == step) {
        pending_.pop_front();
        StepEnd event;
        event.step = step;
        event.skipped = event.passed_over = true;
        event.skipped_steps = step - updates_;
        emit(event);
        continue;
      }
      if (std::optional<BadStep> bad = report(step, *row++)) {
        pending_.clear();
        return bad;
      }
    }
    return std::nullopt;
  }

  // Peaks settle in the first steps, so ranks are asked ever more rarely.
  void tell_memory() {
    memory_told_at_ = 2 * step_.state().steps();
    const auto largest = largest_memory(together_, rank_.device->memory(), step_.state().steps());
    if (largest) emit(*largest);
  }

  std::optional<BadStep> report(i64 step, const StepLosses::Row& row) {
    const StepEnd event = step_end(setup_, step, row);
    updates_ = step - event.skipped_steps;
    emit(event);
    if (watch_.skips()) return std::nullopt;  // judged before its update
    const auto gradients = static_cast<FoundInf>(row.scalars[step_scalar::kFoundInf]);
    std::optional<BadStep> bad = watch_.judge(step, event.loss, gradients);
    if (bad && !watch_.rewinds()) fail_bad(*bad);
    return bad;
  }

  const TrainerArguments& arguments_;
  const RunSetup& setup_;
  const RunConfig& config_;
  RankSpec spec_;
  Rank rank_;
  Together together_;
  std::unique_ptr<FolderLock> lock_;  // on rank 0, while the run lasts
  PlacedModel model_;
  Mover mover_{setup_, arguments_.moved};
  Recorder recorder_{*rank_.device, *rank_.mesh, mover_};
  TrainStep step_;
  Evaluation evaluation_;
  TrainingState state_;
  Checkpoints checkpoints_;
  std::vector<std::shared_ptr<Observer>> observers_;  // on rank 0
  StartingPoint start_;
  ResolvedFile resolved_{config_.run.out, arguments_.config_text};
  RunHistory history_{config_.run.out};
  LossWatch watch_{config_.check};
  bool begun_ = false;       // before that, what failed on all ranks is no action's failure
  std::deque<i64> pending_;  // steps that were passed over and not told yet
  StepRange recorded_;       // on all ranks
  std::vector<TracedStep> records_;
  struct {
    std::string folder;
    i64 step = 0;
  } newest_;                         // checkpoint that was loaded or saved last
  i64 updates_ = 0;                  // of the parameters, up to the last step that was told
  i64 failed_saves_ = 0;             // in a row
  std::exception_ptr failed_later_;  // of an asynchronous save, until losses are judged
  i64 memory_told_at_ = 0;           // the next step of which memory is told
  bool put_off_ = false;             // a save was due after a bad step and before a good one
  double held_up_ = 0;  // seconds that the next asynchronous save has waited for the last, so far
  double waited_ = 0;   // seconds of the last asynchronous save in which training stood still
};

}  // namespace

bool train_rank(const TrainerArguments& arguments) {
  Trainer trainer(arguments);
  try {
    return trainer.run();
  } catch (const std::exception& error) {
    trainer.fail_run(error);
    throw;
  }
}

}  // namespace tessera
