#include "kernel/train/run/bad_steps.hpp"

#include <cmath>
#include <string>

#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

void BadSteps::judge_updates() {
  if (!watch_.skips()) return;
  training_.step.refuse_if([this](double loss, FoundInf found) { return refuse(loss, found); });
}

bool BadSteps::refuse(double loss, FoundInf gradients) {
  const std::optional<BadStep> bad = watch_.judge(training_.steps() + 1, loss, gradients);
  if (!bad) return false;
  samples_.add(*bad);
  if (!watch_.once_more()) {
    report();  // the good steps before it
    diverge(*bad);
  }
  if (training_.root()) {
    log_warning("{}: its update is left out, {} of check.bad_steps = {} in a row",
                bad->why,
                watch_.in_a_row(),
                training_.config().check.bad_steps);
  }
  return true;
}

bool BadSteps::pass_over() {
  samples_.tell();
  if (!watch_.passed_over(training_.steps() + 1)) return false;
  reporter_.pass_over();
  training_.step.state().pass_over();
  return true;
}

std::optional<BadStep> BadSteps::report() {
  return reporter_.report([this](i64 step, double loss, FoundInf gradients) {
    if (watch_.skips()) return std::optional<BadStep>();  // judged before its update
    std::optional<BadStep> bad = watch_.judge(step, loss, gradients);
    if (bad && !watch_.rewinds()) {
      samples_.add(*bad);
      samples_.tell();
      diverge(*bad);
    }
    return bad;
  });
}

std::optional<BadStep> BadSteps::judge_validation(double loss) const {
  if (std::isfinite(loss)) return std::nullopt;
  const i64 step = training_.steps();
  BadStep bad{step, loss, fmt::format("the validation loss of step {} is not finite", step)};
  if (!watch_.rewinds()) diverge(bad);
  return bad;
}

// Losses are the same on all ranks, so all of them end here. They leave together: rank 0's store
// must outlive the error.
void BadSteps::diverge(const BadStep& bad) const {
  saver_.end_save();
  std::string back = "no checkpoint was saved before";
  if (!saver_.newest().empty()) {
    back = fmt::format("the newest checkpoint before it is {}{}",
                       saver_.newest(),
                       watch_.tried() ? "" : ", and no step was good with its parameters");
  }
  const std::string again = watch_.in_a_row() == 0
                                ? ""
                                : fmt::format(" again, more than check.bad_steps = {} in a row",
                                              training_.config().check.bad_steps);
  const char* help = training_.config().precision.scales_loss()
                         ? "learning rate or precision.loss_scale"
                         : "learning rate";
  training_.plane.all("divergence", [&]() -> std::string {
    fail("{}{}: the run has diverged; {}; a lower {} may help", bad.why, again, back, help);
  });
}

void BadSteps::go_back(const BadStep& bad) {
  saver_.end_save();
  if (saver_.newest().empty()) diverge(bad);
  saver_.give_up_newest_if_bad();
  if (!watch_.once_more()) diverge(bad);
  const StartingPoint start = saver_.go_back();
  watch_.pass_over(bad, start.info->step);
  recorder_.go_back(start.info->step);
  if (training_.root()) {
    log_warning("{}: going back to {}, to pass over its batch; {} of check.bad_steps = {} in a row",
                bad.why,
                saver_.newest(),
                watch_.in_a_row(),
                training_.config().check.bad_steps);
  }
  samples_.add(bad);
  samples_.tell();
  reporter_.begin(start);
  reporter_.announce();
}

}  // namespace tessera
