#include "kernel/train/run/run_recorder.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

RunRecorder::RunRecorder(const Training& training, RunReporter& reporter)
    : training_(training),
      reporter_(reporter),
      progress_(training.setup(), *training.model.rank().progress),
      recorder_(*training.model.rank().device, *training.model.rank().mesh, progress_) {
  training_.step.observe(recorder_);
}

void RunRecorder::agree() {
  using WallTime = Recorder::WallClock::time_point;
  const std::string text = training_.plane.root("observers", [&] {
    const StepRange asked = reporter_.asked_records();
    const WallTime now = Recorder::WallClock::now();
    return fmt::format("{} {} {}", asked.first, asked.last, now.time_since_epoch().count());
  });
  WallTime::rep zero = 0;
  std::istringstream(text) >> range_.first >> range_.last >> zero;
  recorder_.count_from(WallTime(WallTime::duration(zero)));
}

void RunRecorder::run_step() {
  const i64 step = training_.steps() + 1;
  if (!range_.contains(step)) return training_.step.run();
  recorder_.begin(step);
  // Where a step is one graph, the first step shows the actions, the others their replay.
  records_.empty() ? training_.step.run_observed() : training_.step.run();
  records_.push_back(recorder_.end());
}

void RunRecorder::go_back(i64 step) {
  std::erase_if(records_, [&](const TracedStep& of) { return of.step > step; });
}

void RunRecorder::tell(bool final) {
  const i64 step = training_.steps();
  if (records_.empty() || !(final || step == range_.last)) return;
  std::string text;
  const std::vector<TracedReadback> readbacks = training_.step.readbacks(training_.step.plan());
  for (const TracedStep& recorded : std::exchange(records_, {})) {
    text +=
        (text.empty() ? "" : ",\n") + recorder_.events(training_.step.plan(), recorded, readbacks);
  }
  const std::vector<std::string> all = training_.plane.collect("trace", std::move(text));
  if (!training_.root()) return;
  try {
    reporter_.emit(Recorded{range_.first, std::min(step, range_.last), trace_file(all)});
  } catch (const Error& error) {  // a training is worth more than its trace
    log(LogLevel::error, error.what());
  }
}

}  // namespace tessera
