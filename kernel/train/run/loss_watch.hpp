#pragma once
#include <optional>
#include <set>
#include <string>

#include "kernel/checkpoint/index.hpp"
#include "kernel/config/run_config.hpp"
#include "tessera/ops/update.hpp"

namespace tessera {

/// A step whose loss or gradients cannot be trained on, and why, for people.
struct BadStep {
  i64 step = 0;
  double loss = 0;
  std::string why;  ///< "the loss of step 57 is not finite"
};

/// What `[check] on_bad_step` does about losses and gradients that are not finite, and losses that
/// rise by more than check.loss_rise: judges steps in their order, remembers which are passed over,
/// and says when there have been too many. What is judged is equal on all ranks, and so is all of
/// this.
class LossWatch {
 public:
  explicit LossWatch(const CheckSection& section) : section_(section) {}

  bool skips() const { return section_.skips(); }
  bool rewinds() const { return section_.rewinds(); }

  /// Judges the next step; a good loss joins the mean. Gradients that a smaller loss scale may mend
  /// are not bad.
  std::optional<BadStep> judge(i64 step, double loss, FoundInf gradients = kFinite);

  /// A bad step was met: false when there were too many in a row. With "skip" a good step ends the
  /// row; with "rewind" a good step does that tries the parameters of a new checkpoint.
  bool once_more() { return ++in_a_row_ <= section_.bad_steps; }
  i64 in_a_row() const { return in_a_row_; }

  /// After a rewind to `checkpoint`: passes over the bad step and, each further time in a row, one
  /// more before it, because a loss also tells of the update before it.
  void pass_over(const BadStep& bad, i64 checkpoint);
  /// Has a step after the last bad one had a good loss? Until then the update before may be what
  /// broke the parameters, and nothing may be saved.
  bool proven() const { return bad_ == 0; }
  /// Parameters were copied for a checkpoint: no step has tried them yet.
  void copied() { tried_copy_ = false; }
  /// What was copied last is the newest checkpoint.
  void saved() { tried_ = tried_copy_; }
  /// What was copied last became no checkpoint.
  void save_failed() { tried_copy_ = tried_; }
  /// Was a step good with the parameters of the newest checkpoint?
  bool tried() const { return tried_; }
  /// Is it the parameters of this checkpoint, the newest, that are bad, and not one batch? So it is
  /// when a second batch was bad with them, and none was good.
  bool doubts(i64 checkpoint) const { return !tried_ && passed_over(checkpoint + 1); }
  /// The run goes back to the checkpoint before, whose parameters were tried.
  void gave_up_newest() { tried_ = tried_copy_ = true; }
  /// Is the step not trained on?
  bool passed_over(i64 step) const { return passed_over_.contains(step); }

  void save_to(CheckpointInfo& info) const;
  /// Steps that are known here stay passed over: a rewind goes back to before they were saved.
  void continue_from(const CheckpointInfo& info);

 private:
  std::optional<BadStep> judged(i64 step, double loss, FoundInf gradients) const;

  const CheckSection& section_;
  double mean_ = 0;  // of the losses of good steps, the last `loss_window` of them most
  i64 count_ = 0, in_a_row_ = 0;
  i64 bad_ = 0;              // the last bad step, with no good one after it yet; 0: none
  bool tried_ = false;       // the parameters of the newest checkpoint gave a good loss
  bool tried_copy_ = false;  // those that were copied last did
  std::set<i64> passed_over_;
};

}  // namespace tessera
