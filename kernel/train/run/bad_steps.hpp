#pragma once
#include <optional>

#include "kernel/train/run/bad_samples.hpp"
#include "kernel/train/run/loss_watch.hpp"
#include "kernel/train/run/run_recorder.hpp"
#include "kernel/train/run/run_reporter.hpp"
#include "kernel/train/run/run_saver.hpp"

namespace tessera {

/// What a run does about bad steps, as `[check] on_bad_step` says: ends, leaves their update out,
/// or goes back to a checkpoint and passes over them. LossWatch says which steps are bad. All ranks
/// make the same calls and decide alike.
class BadSteps {
 public:
  /// All outlive it.
  BadSteps(const Training& training,
           LossWatch& watch,
           RunReporter& reporter,
           RunRecorder& recorder,
           RunSaver& saver)
      : training_(training),
        watch_(watch),
        reporter_(reporter),
        recorder_(recorder),
        saver_(saver),
        samples_(training_) {}

  /// "skip": from now on each step is judged before its update.
  void judge_updates();
  /// "rewind": passes over the next step, if that was bad, and says so.
  bool pass_over();
  /// Reports the steps since the last report. Ends the run at a bad one, or returns it, for
  /// go_back().
  std::optional<BadStep> report();
  /// The same of the validation loss after the last step.
  std::optional<BadStep> judge_validation(double loss) const;
  /// What a resumed run does, within this one.
  void go_back(const BadStep& bad);

 private:
  bool refuse(double loss, FoundInf gradients);
  void diverge(const BadStep& bad) const;

  const Training training_;
  LossWatch& watch_;
  RunReporter& reporter_;
  RunRecorder& recorder_;
  RunSaver& saver_;
  BadSamples samples_;
};

}  // namespace tessera
