#include "kernel/train/trainer.hpp"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <utility>

#include "kernel/checkpoint/checkpoints.hpp"
#include "kernel/checkpoint/disk.hpp"
#include "kernel/train/training_state.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"
#include "tessera/observer.hpp"
#include "tessera/ops/update.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Trainer {
 public:
  explicit Trainer(const TrainerArguments& arguments)
      : arguments_(arguments),
        session_(arguments.session),
        config_(session_.config()),
        checkpoints_({.folder = config_.checkpoint.out,
                      .keep = config_.checkpoint.keep,
                      .run = config_.run.name,
                      .mesh = &session_.mesh(),
                      .device = &session_.device(),
                      .store = arguments.session.store,
                      .timeout = std::chrono::milliseconds(
                          static_cast<i64>(config_.comm.init_timeout_s * 1000))}) {}

  void run() {
    resume();
    make_observers();
    const auto start = Clock::now();
    const i64 first = session_.steps() + 1, last = config_.run.steps;
    announce(first);
    bool stopped = false;
    while (session_.steps() < last && !stopped) {
      const auto step_start = Clock::now();
      session_.train_step();
      stopped = session_.any_rank(arguments_.stop && arguments_.stop());
      durations_.push_back(seconds_since(step_start));
      after_step(stopped || session_.steps() == last);
    }
    emit(RunEnd{session_.steps(), seconds_since(start), stopped});
  }

  void fail_run(const std::exception& error) noexcept {
    try {
      if (arguments_.failed) arguments_.failed(error);
      session_.abort(error.what());
      emit(Failure{error.what()});
    } catch (const std::exception& second) {
      log_warning("while ending a failed run: {}", second.what());
    }
  }

 private:
  bool root() const { return arguments_.session.rank == 0; }
  static bool due(i64 step, i64 every) { return every > 0 && step % every == 0; }

  template <class E>
  void emit(const E& event) {
    for (const auto& observer : observers_) observer->on(event);
  }

  void resume() {
    if (config_.checkpoint.every_steps > 0) checkpoints_.claim();
    const auto loaded = checkpoints_.load(
        config_.checkpoint.resume, training_tensors(session_), training_names(session_));
    if (!loaded) return;
    continue_from(*loaded, session_);
    resumed_from_ = newest_ = loaded->folder.string();
  }

  void make_observers() {
    if (!root()) return;
    std::filesystem::create_directories(config_.run.out);
    write_synced(std::filesystem::path(config_.run.out) / "resolved.toml", arguments_.config_text);
    HostMaker maker(*arguments_.session.plugins, *arguments_.session.config);
    ObserverArguments arguments{config_.run.out, session_.steps()};
    for (const NamedObserver& named : config_.observers) {
      observers_.push_back(maker.make(named.observer, arguments));
    }
  }

  i64 tokens_per_step() const {
    const RunSetup& setup = session_.setup();
    return config_.batch.global * setup.batch.sequence * setup.layout.context;
  }

  i64 validation_samples() const {
    return config_.validation.samples > 0 ? config_.validation.samples
                                          : session_.setup().dataset->size(SampleSet::validation);
  }

  void announce(i64 first) {
    RunStart event;
    event.name = config_.run.name;
    event.out = config_.run.out;
    event.first_step = first;
    event.last_step = config_.run.steps;
    event.world = session_.mesh().world_size();
    event.parameters = session_.parameter_elements();
    event.tokens_per_step = tokens_per_step();
    event.flops_per_token = session_.setup().model->flops_per_token();
    event.layout = arguments_.layout;
    event.resumed_from = resumed_from_;
    event.json = arguments_.json;
    emit(event);
  }

  void after_step(bool final) {
    const i64 step = session_.steps();
    const bool validate =
        config_.validation.every_steps > 0 && (due(step, config_.validation.every_steps) || final);
    const bool save =
        config_.checkpoint.every_steps > 0 && (due(step, config_.checkpoint.every_steps) || final);
    if (due(step, config_.check.replicas_every)) session_.check_replicas();
    if (session_.losses_full() || validate || save || final) report();
    if (validate) {
      const double loss = session_.validate(validation_samples());
      emit(Validation{step, loss});
      require_finite(loss, "validation loss", step);
    }
    if (!save) return;
    const auto start = Clock::now();
    newest_ = checkpoints_
                  .save(training_info(session_, arguments_.config_text), training_tensors(session_))
                  .string();
    emit(Saved{step, newest_, seconds_since(start)});
  }

  // Losses are the same on all ranks, so all of them end here; and they are read before anything is
  // saved, so whatever was saved is older.
  void require_finite(double loss, std::string_view what, i64 step) const {
    if (std::isfinite(loss)) return;
    const std::string back = newest_.empty()
                                 ? "no checkpoint was saved before"
                                 : fmt::format("the newest checkpoint, of before, is {}", newest_);
    fail(
        "the {} of step {} is not finite: the run has diverged; {}; a lower learning rate may help",
        what,
        step,
        back);
  }

  // Hands the steps since the last report to the observers.
  void report() {
    const std::vector<StepLosses::Row> rows = session_.losses();
    i64 step = session_.steps() - static_cast<i64>(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      StepEnd event;
      event.step = ++step;
      event.loss = rows[i].loss;
      event.grad_norm = rows[i].scalars[step_scalar::kNorm];
      event.lr = rows[i].scalars[step_scalar::kLearningRate];
      event.skipped = rows[i].scalars[step_scalar::kFoundInf] != 0;
      event.seconds = durations_[i];
      event.tokens_per_second = static_cast<double>(tokens_per_step()) / durations_[i];
      for (std::size_t m = 0; m < rows[i].metrics.size(); ++m) {
        event.metrics.emplace_back(session_.parts().metrics()[m].name, rows[i].metrics[m]);
      }
      emit(event);
      require_finite(event.loss, "loss", step);
    }
    durations_.clear();
  }

  const TrainerArguments& arguments_;
  Session session_;
  const RunConfig& config_;
  Checkpoints checkpoints_;
  std::vector<std::shared_ptr<Observer>> observers_;  // on rank 0
  std::vector<double> durations_;                     // of steps not reported yet
  std::string resumed_from_, newest_;                 // checkpoints: loaded, last loaded or saved
};

}  // namespace

void train_rank(const TrainerArguments& arguments) {
  Trainer trainer(arguments);
  try {
    trainer.run();
  } catch (const std::exception& error) {
    trainer.fail_run(error);
    throw;
  }
}

}  // namespace tessera
