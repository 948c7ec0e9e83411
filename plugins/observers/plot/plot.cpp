#include "plot.hpp"

#include <filesystem>
#include <utility>

#include "run_folder.hpp"
#include "tessera/bounds.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

void Plot::Config::describe(Schema<Config>& s) {
  s.field("every_steps",
          &Config::every_steps,
          "steps between drawings; validations, checkpoints and the end draw too")
      .at_least(1)
      .at_most(kMostSteps);
}

void Plot::do_on(const RunStart& start) {
  title_ = start.name;
  training_ = validation_ = {};
  std::error_code error;
  std::filesystem::create_directories(arguments_.out, error);
  if (error) fail("plot: cannot make the folder \"{}\": {}", arguments_.out, SystemError(error));
  if (arguments_.resume_step == 0) return set_aside(arguments_.out + "/loss.svg");
  const auto take = [this](const EarlierStep& line) {
    if (const auto loss = line.number("loss")) training_.add(line.step(), *loss);
    if (const auto loss = line.number("val_loss")) validation_.add(line.step(), *loss);
  };
  for_each_earlier_step(arguments_.out + "/metrics.jsonl", arguments_.resume_step, take);
}

void Plot::do_on(const StepEnd& step) {
  if (!step.passed_over) training_.add(step.step, step.loss);
  if (step.step % config_.every_steps == 0) draw();
}

void Plot::do_on(const Validation& validation) {
  validation_.add(validation.step, validation.loss);
  draw();
}

// A picture is no reason to lose a run: where it cannot be written, a full disk say, the old one
// stays and the next drawing tries again.
void Plot::draw() {
  try {
    replace_file(arguments_.out + "/loss.svg",
                 draw_chart(loss_chart(title_, training_, validation_)));
    failed_ = false;
  } catch (const std::exception& error) {
    if (!std::exchange(failed_, true)) {
      log_warning("plot: {}; the run goes on without it", error.what());
    }
  }
}

}  // namespace tessera
