#include "tensorboard.hpp"

#include <cmath>
#include <filesystem>

#include "tessera/error.hpp"

namespace tessera {

// A file is not continued: what a killed run wrote last may be half a record, after which nothing
// is read.
void TensorBoard::do_on(const RunStart& start) {
  namespace fs = std::filesystem;
  run_ = start;
  const fs::path folder = fs::path(arguments_.out) / "tensorboard";
  std::error_code error;
  if (arguments_.resume_step == 0 && fs::exists(folder, error)) {
    fs::rename(folder, numbered_path(folder.string()), error);
  }
  if (!error) fs::create_directories(folder, error);
  if (error)
    fail("tensorboard: cannot make the folder \"{}\": {}", folder.string(), SystemError(error));
  file_.emplace(folder, arguments_.resume_step > 0 ? arguments_.resume_step + 1 : 0);
}

void TensorBoard::do_on(const StepEnd& step) {
  if (step.passed_over) return;
  EventFile::Scalars scalars = {{"lm loss", step.loss},
                                {"learning-rate", step.lr},
                                {"grad-norm", step.grad_norm},
                                {"iteration-time", step.seconds},
                                {"tokens-per-second", step.tokens_per_second}};
  constexpr double kTera = 1e12;
  if (const double rate = run_.flops_per_second(step.tokens_per_second); rate > 0) {
    scalars.emplace_back("throughput", rate / kTera);
  }
  if (step.loss_scale > 0) scalars.emplace_back("loss-scale", step.loss_scale);
  if (step.skipped_steps > 0) {
    scalars.emplace_back("skipped-iterations", static_cast<double>(step.skipped_steps));
  }
  for (const auto& [name, value] : step.metrics) scalars.emplace_back(name, value);
  file_->add(step.step, scalars);
}

void TensorBoard::do_on(const Validation& validation) {
  EventFile::Scalars scalars = {{"lm loss validation", validation.loss},
                                {"lm loss validation ppl", std::exp(validation.loss)}};
  for (const auto& [name, value] : validation.measured) scalars.emplace_back(name, value);
  file_->add(validation.step, scalars);
}

}  // namespace tessera
