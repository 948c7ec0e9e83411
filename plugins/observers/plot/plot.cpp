#include "plot.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "earlier_points.hpp"
#include "tessera/error.hpp"

namespace tessera {

void Plot::Config::describe(Schema<Config>& s) {
  s.field("every_steps",
          &Config::every_steps,
          "steps between drawings; validations, checkpoints and the end draw too")
      .at_least(1);
}

void Plot::on(const RunStart& start) {
  curves_ = {};
  curves_.title = start.name;
  std::error_code error;
  std::filesystem::create_directories(arguments_.out, error);
  if (error) fail("plot: cannot make the folder \"{}\": {}", arguments_.out, error.message());
  if (arguments_.resume_step > 0) {
    read_earlier_points(arguments_.out + "/metrics.jsonl", arguments_.resume_step, curves_);
  } else {
    set_aside(arguments_.out + "/loss.svg");
  }
}

void Plot::on(const StepEnd& step) {
  if (std::isfinite(step.loss)) curves_.train.push_back({step.step, step.loss});
  if (step.step % config_.every_steps == 0) draw();
}

void Plot::on(const Validation& validation) {
  if (std::isfinite(validation.loss)) {
    curves_.validation.push_back({validation.step, validation.loss});
  }
  draw();
}

void Plot::draw() const {
  const std::string path = arguments_.out + "/loss.svg", next = path + ".tmp";
  std::ofstream out(next, std::ios::binary | std::ios::trunc);
  out << draw_chart(curves_);
  out.close();
  if (!out) fail("plot: cannot write \"{}\"", next);
  std::error_code error;
  std::filesystem::rename(next, path, error);
  if (error) fail("plot: cannot put \"{}\" in place: {}", path, error.message());
}

}  // namespace tessera
