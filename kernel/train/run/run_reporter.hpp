#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kernel/train/run/loss_watch.hpp"
#include "kernel/train/run/resolved_file.hpp"
#include "kernel/train/run/run_history.hpp"
#include "kernel/train/run/starting_point.hpp"
#include "kernel/train/run/training.hpp"
#include "tessera/observer.hpp"

namespace tessera {

/// What a run says of itself: events for its observers, and in its folder the configuration and the
/// history. Observers and files are rank 0's; all ranks make the same calls.
class RunReporter {
 public:
  explicit RunReporter(const Training& training)
      : training_(training),
        resolved_(training.config().run.out, training.arguments.config_text),
        history_(training.config().run.out) {}

  /// Makes the observers of a run that goes on from where the step is now.
  void begin(const StartingPoint& start);
  const StartingPoint& start() const { return start_; }
  /// The steps that observers want recorded, from the first to the last; none: empty. On rank 0.
  StepRange asked_records() const;
  /// Tells observers what begins, and then replaces files of another configuration.
  RunStart announce();
  /// The history has a new part.
  void begin_history(const RunStart& started);
  /// The training is over, or was stopped.
  void end(bool done, double seconds);
  /// The training has failed: the history says so. Observers are told by a Failure.
  void end_failed(std::string_view why) noexcept;

  template <class E>
  void emit(const E& event) {
    for (const auto& observer : observers_) observer->on(event);
  }

  /// The next step is passed over: its line says that nothing was learned.
  void pass_over() { passed_over_.push_back(training_.steps() + 1); }
  /// Hands the steps since the last report to the observers, each then to `judge`, up to the first
  /// that is bad.
  using Judge = std::function<std::optional<BadStep>(i64 step, double loss, FoundInf gradients)>;
  std::optional<BadStep> report(const Judge& judge);
  /// Tells observers the memory of the fullest rank, ever more rarely: peaks settle in the first
  /// steps. At the end of a run always.
  void tell_memory(bool final);

 private:
  const Training training_;
  ResolvedFile resolved_;
  RunHistory history_;
  std::vector<std::shared_ptr<Observer>> observers_;
  StartingPoint start_;
  std::deque<i64> passed_over_;  // steps that are not told yet
  i64 updates_ = 0;              // of the parameters, up to the last step that was told
  i64 memory_told_at_ = 0;       // the next step of which memory is told
};

}  // namespace tessera
