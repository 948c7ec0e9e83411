#include "kernel/train/run/run_reporter.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernel/train/run/largest_memory.hpp"
#include "kernel/train/run/run_events.hpp"
#include "tessera/log.hpp"
#include "tessera/ops/update.hpp"

namespace tessera {

void RunReporter::begin(const StartingPoint& start) {
  start_ = start;
  updates_ = start.info ? start.info->updates : 0;
  observers_.clear();
  if (!training_.root()) return;
  ObserverArguments arguments{training_.config().run.out,
                              start_.same_run ? training_.steps() : 0,
                              !resolved_.is_of_this_run()};
  for (const Named<Observer>& named : training_.config().observers) {
    observers_.push_back(training_.setup().maker->make(named.component, arguments));
  }
}

StepRange RunReporter::asked_records() const {
  StepRange all{std::numeric_limits<i64>::max(), 0};
  for (const auto& observer : observers_) {
    const StepRange range = observer->recorded_steps();
    if (range.last < range.first) continue;
    all = {std::min(all.first, range.first), std::max(all.last, range.last)};
  }
  const i64 last = training_.config().run.steps;
  if (all.last > 0 && all.first > last) {
    log_warning("no step will be traced: steps {} to {} are beyond run.steps = {}",
                all.first,
                all.last,
                last);
  }
  return all;
}

// Observers set files of another configuration aside, so this one is replaced last.
RunStart RunReporter::announce() {
  RunStart start = run_start(training_, start_);
  emit(start);
  if (!training_.root() || resolved_.is_of_this_run()) return start;
  if (training_.config().checkpoint.save && !is_utf8(training_.arguments.config_text)) {
    log_warning(
        "the configuration has bytes that are not UTF-8, in a path perhaps: in a checkpoint they "
        "are \ufffd");
  }
  if (!start_.same_run) history_.set_aside();
  resolved_.replace();
  return start;
}

void RunReporter::begin_history(const RunStart& started) {
  if (!training_.root()) return;
  history_.begin(run_part(training_, started, start_), start_.same_run);
}

void RunReporter::end(bool done, double seconds) {
  const i64 steps = training_.steps();
  emit(RunEnd{steps, seconds, !done});
  history_.end(steps, done ? "finished" : "stopped");
}

void RunReporter::end_failed(std::string_view why) noexcept {
  history_.end(training_.steps(), "failed", why);
}

std::optional<BadStep> RunReporter::report(const Judge& judge) {
  const std::vector<StepLosses::Row> rows = training_.step.losses();
  const i64 last = training_.steps();
  auto row = rows.begin();
  for (i64 step = last - static_cast<i64>(rows.size() + passed_over_.size()) + 1; step <= last;
       ++step) {
    if (!passed_over_.empty() && passed_over_.front() == step) {
      passed_over_.pop_front();
      StepEnd event;
      event.step = step;
      event.skipped = event.passed_over = true;
      event.skipped_steps = step - updates_;
      emit(event);
      continue;
    }
    const StepEnd event = step_end(training_.setup(), step, *row);
    const auto gradients = static_cast<FoundInf>((row++)->scalars[step_scalar::kFoundInf]);
    updates_ = step - event.skipped_steps;
    emit(event);
    if (std::optional<BadStep> bad = judge(step, event.loss, gradients)) {
      passed_over_.clear();
      return bad;
    }
  }
  return std::nullopt;
}

void RunReporter::tell_memory(bool final) {
  const i64 step = training_.steps();
  if (!final && step < memory_told_at_) return;
  memory_told_at_ = 2 * step;
  const auto largest =
      largest_memory(training_.plane, training_.model.rank().device->memory(), step);
  if (largest) emit(*largest);
}

}  // namespace tessera
