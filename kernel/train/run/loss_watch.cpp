#include "kernel/train/run/loss_watch.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/error.hpp"

namespace tessera {

std::optional<BadStep> LossWatch::judge(i64 step, double loss, FoundInf gradients) {
  std::optional<BadStep> bad = judged(step, loss, gradients);
  if (bad) {
    bad_ = step;
    return bad;
  }
  if (step > bad_) bad_ = 0;
  if (skips() || !tried_copy_) in_a_row_ = 0;
  tried_ = tried_copy_ = true;
  count_ = std::min(count_ + 1, section_.loss_window);
  mean_ += (loss - mean_) / static_cast<double>(count_);
  return std::nullopt;
}

std::optional<BadStep> LossWatch::judged(i64 step, double loss, FoundInf gradients) const {
  if (!std::isfinite(loss)) {
    return BadStep{step, loss, fmt::format("the loss of step {} is not finite", step)};
  }
  if (gradients == kNotExplained) {
    return BadStep{step, loss, fmt::format("the gradients of step {} are not finite", step)};
  }
  const bool known = count_ >= section_.loss_window && mean_ > 0;
  if (section_.loss_rise > 0 && known && loss > section_.loss_rise * mean_) {
    return BadStep{step,
                   loss,
                   fmt::format("the loss of step {}, {:.4g}, is more than check.loss_rise = {} "
                               "times the mean of the steps before, {:.4g}",
                               step,
                               loss,
                               section_.loss_rise,
                               mean_)};
  }
  return std::nullopt;
}

void LossWatch::pass_over(const BadStep& bad, i64 checkpoint) {
  bad_ = bad.step;  // also one that the validation found
  passed_over_.insert(bad.step);
  i64 more = in_a_row_ - 1;
  for (i64 step = bad.step - 1; step > checkpoint && more > 0; --step) {
    if (passed_over_.insert(step).second) --more;
  }
}

void LossWatch::save_to(CheckpointInfo& info) const {
  info.loss_mean = mean_;
  info.loss_count = count_;
  for (const i64 step : passed_over_) {
    if (step <= info.step) info.passed_over.push_back(step);
  }
}

void LossWatch::continue_from(const CheckpointInfo& info) {
  mean_ = info.loss_mean;
  count_ = std::min(info.loss_count, section_.loss_window);
  passed_over_.insert(info.passed_over.begin(), info.passed_over.end());
}

}  // namespace tessera
