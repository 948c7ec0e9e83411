#pragma once
#include <vector>

#include "kernel/train/execution/recorder.hpp"
#include "kernel/train/run/action_progress.hpp"
#include "kernel/train/run/run_reporter.hpp"

namespace tessera {

/// Is told of every action of a rank: says that the rank moves on, and records the steps that
/// observers ask for. All ranks make the same calls.
class RunRecorder {
 public:
  /// Observes the step. The reporter outlives it.
  RunRecorder(const Training& training, RunReporter& reporter);

  /// All ranks record the steps that observers ask for, which are on rank 0, and count time from
  /// the same moment.
  void agree();
  /// One step, recorded where it is to be.
  void run_step();
  /// The run has gone back to this step: what was recorded after it will be recorded again.
  void go_back(i64 step);
  /// Hands the records of all ranks to the observers, once all steps are recorded or the run is at
  /// its end.
  void tell(bool final);

 private:
  const Training training_;
  RunReporter& reporter_;
  ActionProgress progress_;
  Recorder recorder_;
  StepRange range_;
  std::vector<TracedStep> records_;
};

}  // namespace tessera
