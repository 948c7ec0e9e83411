#include "metrics.hpp"

#include <filesystem>

#include "tessera/error.hpp"
#include "tessera/log.hpp"
#include "tessera/run_speed.hpp"

namespace tessera {

Metrics::~Metrics() {
  try {
    save();
  } catch (const Error& error) {
    log(LogLevel::error, error.what());
  }
}

void Metrics::save() {
  write();
  if (file_ != nullptr) file_->sync();
}

void Metrics::do_on(const RunStart& start) {
  run_ = start;
  std::error_code error;
  std::filesystem::create_directories(arguments_.out, error);
  if (error) fail("metrics: cannot make the folder \"{}\": {}", arguments_.out, SystemError(error));
  file_ = std::make_unique<MetricsFile>(
      arguments_.out + "/metrics.jsonl", arguments_.resume_step, arguments_.changed);
}

void Metrics::do_on(const StepEnd& step) {
  write();
  step_ = step.step;
  line_ = Json();
  line_.add("step", step.step);
  if (!step.passed_over) {
    line_.add("loss", step.loss)
        .add("grad_norm", step.grad_norm)
        .add("lr", step.lr)
        .add("tokens_per_second", step.tokens_per_second)
        .add("seconds", step.seconds);
    add_work(line_, run_, step.tokens_per_second);
  }
  if (step.skipped) line_.add("skipped", true);
  if (step.skipped_steps > 0) line_.add("skipped_steps", step.skipped_steps);
  if (step.loss_scale > 0) line_.add("loss_scale", step.loss_scale);
  for (const auto& [name, value] : step.metrics) line_.add(name, value);
  for (const auto& [name, values] : step.by_layer) {
    line_.add(name + "_by_layer", Json::array(values));
  }
  waiting_ = true;
}

void Metrics::do_on(const Validation& validation) {
  if (validation.step != step_) {  // before the first step, or of a run that only evaluates
    write();
    step_ = validation.step;
    line_ = Json().add("step", validation.step);
    waiting_ = true;
  }
  line_.add("val_loss", validation.loss);
  for (const auto& [name, value] : validation.measured) line_.add(name, value);
  if (!waiting_) file_->replace_last(line_.text());  // a checkpoint of the step came first
}

void Metrics::write() {
  if (!waiting_) return;
  waiting_ = false;
  file_->append(line_.text());
}

}  // namespace tessera
