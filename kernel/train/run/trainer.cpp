#include "kernel/train/run/trainer.hpp"

#include <malloc.h>

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/comm/control_plane/control_plane.hpp"
#include "kernel/train/execution/agree_plans.hpp"
#include "kernel/train/execution/train_step.hpp"
#include "kernel/train/run/bad_steps.hpp"
#include "kernel/train/run/flight_records.hpp"
#include "kernel/train/run/loss_watch.hpp"
#include "kernel/train/run/run_recorder.hpp"
#include "kernel/train/run/run_reporter.hpp"
#include "kernel/train/run/run_saver.hpp"
#include "kernel/train/run/starting_point.hpp"
#include "kernel/train/run/text_sampler.hpp"
#include "kernel/train/run/validations.hpp"
#include "kernel/train/run/warm_up.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

// One thread at a time: where another allocator stands in for glibc's (a sanitizer's, LD_PRELOAD),
// the first call makes glibc's own heap, and a second one meanwhile would find it half made.
void free_pages() {
  static std::mutex one;
  const std::lock_guard lock(one);
  malloc_trim(0);
}

class Trainer {
 public:
  explicit Trainer(const TrainerArguments& arguments)
      : rank_(make_rank(
            rank_spec_of(*arguments.setup), arguments.identity, warm_up_of(*arguments.setup))),
        plane_(arguments.identity.control_plane(wait_limits_of(*arguments.setup))),
        lock_(claim(*arguments.setup->config)),
        model_(rank_, *arguments.setup),
        step_(model_),
        training_{arguments, model_, step_, plane_},
        validations_(model_),
        watch_(config().check),
        reporter_(training_),
        recorder_(training_, reporter_),
        saver_(training_, watch_, reporter_),
        bad_steps_(training_, watch_, reporter_, recorder_, saver_) {
    if (rank_.communicator != nullptr) {
      const auto timeout = wait_limits_of(*arguments.setup).timeout;
      agree_plans(step_.plan(), *rank_.mesh, *arguments.identity.store, timeout);
    }
    model_.initialize(config().run.seed);
  }

  StartingPoint start() {
    const bool looks = plane_.root("looks", [&] { return lock_ == nullptr ? "1" : ""; }) == "1";
    return saver_.begin(looks);
  }

  bool run(const StartingPoint& start) {
    step_.prepare();
    bad_steps_.judge_updates();
    free_pages();  // host copies of initial or loaded values are gone
    reporter_.begin(start);
    recorder_.agree();
    const auto begin = std::chrono::steady_clock::now();
    reporter_.begin_history(reporter_.announce());
    const TrainerArguments& arguments = training_.arguments;
    if (arguments.begin) arguments.begin();
    const i64 last = config().run.steps;
    bool stopped = false;
    while (steps() < last && !stopped) {
      if (arguments.stop && arguments.stop()) step_.state().request_stop();
      rank_.progress->begin_step(steps() + 1);
      if (!bad_steps_.pass_over()) recorder_.run_step();
      stopped = step_.state().stopping();
      recorder_.tell(stopped || steps() == last);
      if (const std::optional<BadStep> bad = after_step(stopped)) bad_steps_.go_back(*bad);
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    const bool done = steps() >= last;
    reporter_.end(done, taken.count());
    return done;
  }

  /// `begun`: before that, what failed on all ranks is no action's failure.
  void fail_run(const std::exception& error, bool begun) noexcept {
    try {
      if (training_.arguments.failed) training_.arguments.failed(error);
      rank_.abort(error.what());
      const auto* known = dynamic_cast<const Error*>(&error);
      const bool refused = known != nullptr && known->kind() == ErrorKind::configuration;
      const bool told = !begun && dynamic_cast<const SharedError*>(&error) != nullptr;
      if (rank_.communicator != nullptr && !refused && !told) {
        add_flight_records(rank_, config().run.out, error.what(), step_.replay().replaying());
      }
      reporter_.emit(Failure{error.what()});
    } catch (const std::exception& second) {
      log_warning("while ending a failed run: {}", second.what());
    }
    reporter_.end_failed(error.what());
  }

 private:
  const RunConfig& config() const { return training_.config(); }
  i64 steps() const { return training_.steps(); }
  bool due(i64 every) const { return every > 0 && steps() % every == 0; }

  // The run's folder, before anything in it is read or changed.
  std::unique_ptr<FolderLock> claim(const RunConfig& config) const {
    std::unique_ptr<FolderLock> lock;
    plane_.root("claim", [&] {
      if (!only_looks(config)) {
        lock = std::make_unique<FolderLock>(config.run.out, ".run.lock", "run.out");
      }
      require_unmixed(config);
      return std::string();
    });
    return lock;
  }

  // A bad step ends it before anything is saved.
  std::optional<BadStep> after_step(bool stopped) {
    const bool last = steps() == config().run.steps, final = stopped || last;
    // No validation for a stop: a job that was told to stop may have seconds to save.
    const i64 every = config().validation.every_steps;
    const bool validate = every > 0 && (due(every) || last);
    const bool save_due = saver_.due(final);
    if (due(config().check.replicas_every)) step_.check_replicas();
    if (step_.losses_full() || validate || save_due || final) {
      if (std::optional<BadStep> bad = bad_steps_.report()) return bad;
      reporter_.tell_memory(final);
    }
    const bool save = saver_.may_save(save_due, final);
    if (validate || save) step_.gather_parameters();
    if (validate) {
      if (std::optional<BadStep> bad = this->validate()) return bad;
    }
    if (save) saver_.save(final);
    if (final) saver_.finish();
    return std::nullopt;
  }

  std::optional<BadStep> validate() {
    const Validation found = validations_.run(steps());
    reporter_.emit(found);
    if (std::optional<BadStep> bad = bad_steps_.judge_validation(found.loss)) return bad;
    const ValidationSection& validation = config().validation;
    if (validation.sample_tokens == 0) return std::nullopt;
    constexpr double kTemperature = 0.8;
    const std::string text = TextSampler(validations_.evaluation(), training_.setup())
                                 .text(validation.sample_prompt,
                                       validation.sample_tokens,
                                       {kTemperature, config().run.seed});
    reporter_.emit(SampleText{steps(), validation.sample_prompt, text});
    return std::nullopt;
  }

  Rank rank_;
  ControlPlane plane_;
  std::unique_ptr<FolderLock> lock_;  // on rank 0, while the run lasts
  PlacedModel model_;
  TrainStep step_;
  const Training training_;
  Validations validations_;
  LossWatch watch_;
  RunReporter reporter_;
  RunRecorder recorder_;
  RunSaver saver_;
  BadSteps bad_steps_;
};

}  // namespace

bool train_rank(const TrainerArguments& arguments) {
  Trainer trainer(arguments);
  bool begun = false;
  try {
    const StartingPoint start = trainer.start();
    begun = true;
    // Where all is done no file is changed: files tell of the keys that trained.
    return start.over || trainer.run(start);
  } catch (const std::exception& error) {
    trainer.fail_run(error, begun);
    throw;
  }
}

}  // namespace tessera
