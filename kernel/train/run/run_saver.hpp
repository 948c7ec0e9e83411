#pragma once
#include <exception>
#include <filesystem>
#include <optional>
#include <string>

#include "kernel/checkpoint/checkpoints.hpp"
#include "kernel/train/run/loss_watch.hpp"
#include "kernel/train/run/run_reporter.hpp"
#include "kernel/train/run/starting_point.hpp"
#include "kernel/train/run/training_state.hpp"

namespace tessera {

/// The checkpoints of a run: from which it begins, when one is saved, and what happens where that
/// fails. All ranks make the same calls.
class RunSaver {
 public:
  /// Both outlive it.
  RunSaver(const Training& training, LossWatch& watch, RunReporter& reporter);

  /// Takes the folder and loads what [checkpoint] says. `looks`: the run's folder is read-only and
  /// not taken. Throws ConfigError where the run may not go on from there, or has no room to save.
  StartingPoint begin(bool looks);

  /// Is a checkpoint due after the last step? `final`: it is the run's last one.
  bool due(bool final) const;
  /// Is a save that is due made? Call it when the losses up to here are judged. After a bad step it
  /// waits for a good one. Throws where the data's files have changed, or an earlier save has
  /// failed.
  bool may_save(bool due, bool final);
  /// Parameters are gathered. What fails on all ranks, as a full disk, is tried again: at the next
  /// step or, for the last one, a little later.
  void save(bool final);
  /// The training is over: waits for what is still being saved.
  void finish();

  /// A bad step was met: ends what is being saved. It is older than the step, and where it fails
  /// the newest checkpoint stays.
  void end_save();
  /// The checkpoint that was loaded or saved last; empty: there is none.
  const std::string& newest() const { return newest_.folder; }
  /// Renames the newest where LossWatch doubts its parameters: the one before is the newest then.
  void give_up_newest_if_bad();
  /// Goes on from the newest checkpoint, as a resumed run would.
  StartingPoint go_back();

 private:
  CheckpointInfo info() const;
  void look(bool wait);
  void require_same_files();
  void tell_not_proven() const;
  void save_later();
  bool try_to_save(bool final);
  void tell_saved(const std::optional<Checkpoints::Saved>& saved);

  const Training training_;
  LossWatch& watch_;
  RunReporter& reporter_;
  TrainingState state_;
  Checkpoints checkpoints_;
  struct {
    std::string folder;
    i64 step = 0;
  } newest_;
  i64 failed_saves_ = 0;             // in a row
  std::exception_ptr failed_later_;  // of an asynchronous save, until losses are judged
  bool put_off_ = false;             // a save was due after a bad step and before a good one
  double held_up_ = 0;  // seconds that the next asynchronous save has waited for the last, so far
  double waited_ = 0;   // seconds of the last asynchronous save in which training stood still
};

}  // namespace tessera
