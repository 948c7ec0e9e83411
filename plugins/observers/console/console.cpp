#include "console.hpp"

#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>

#include "human.hpp"
#include "tessera/bounds.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/written.hpp"
#include "tessera/run_speed.hpp"

namespace tessera {
namespace {

// Names of runs, devices and folders are in the lines.
void print(std::string_view text) {
  const std::string line = readable(text, std::string_view::npos) + '\n';
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

Json event(std::string_view name) { return Json().add("event", name); }

// A processor's own NaN has a sign, which tells nothing.
double without_sign(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

// While a dynamic loss scale finds its size, overflows are normal.
std::string_view why_skipped(const StepEnd& step) {
  const bool overflow = step.loss_scale > 0 && std::isfinite(step.loss);
  return overflow ? "its gradients overflowed, or its loss is bad"
                  : "its loss or its gradients are bad";
}

}  // namespace

void Console::Config::describe(Schema<Config>& s) {
  s.field(
       "every_steps",
       &Config::every_steps,
       "steps between lines, whose loss is the mean of the steps since the line before; the first "
       "and the last step are printed too; with JSON output every step is printed")
      .at_least(1)
      .at_most(kMostSteps)
      .megatron("--log-interval");
}

void Console::do_on(const RunStart& start) {
  run_ = start;
  if (!run_.json) return print_start();
  print(event("start")
            .add("name", run_.name)
            .add("out", run_.out)
            .add("first_step", run_.first_step)
            .add("last_step", run_.last_step)
            .add("world", run_.world)
            .add("parameters", run_.parameters)
            .add("tokens_per_step", run_.tokens_per_step)
            .add("flops_per_token", run_.flops_per_token)
            .add("peak_flops", run_.peak_flops)
            .add("training_documents", run_.training.documents)
            .add("training_tokens", run_.training.tokens)
            .add("training_epochs", run_.training.epochs)
            .add("validation_documents", run_.validation.documents)
            .add("validation_tokens", run_.validation.tokens)
            .add("validation_epochs", run_.validation.epochs)
            .add("layout", run_.layout)
            .add("device", run_.device)
            .add("graphs", run_.graphs)
            .add("resumed_from", run_.resumed_from)
            .text());
}

void Console::print_start() const {
  print(run_.name);
  print(fmt::format("  layout      {}", run_.layout));
  if (!run_.device.empty()) print(fmt::format("  device      {}", run_.device));
  print(fmt::format(
      "  parameters  {} ({})", human::size(run_.parameters), human::count(run_.parameters)));
  print(fmt::format("  steps       {} to {}, {} tokens each",
                    human::count(run_.first_step),
                    human::count(run_.last_step),
                    human::count(run_.tokens_per_step)));
  print_data();
  if (!run_.graphs.empty()) print(fmt::format("  graphs      {}", run_.graphs));
  print(fmt::format("  folder      {}", run_.out));
  if (!run_.resumed_from.empty()) print(fmt::format("  resumed     {}", run_.resumed_from));
}

void Console::print_data() const {
  const auto content = [](const RunData& data) {
    std::string text = fmt::format("{} tokens", human::count(data.tokens));
    if (data.documents > 0) {
      std::string_view unit = data.unit;
      if (data.documents == 1 && unit.ends_with('s')) unit.remove_suffix(1);
      text += fmt::format(" in {} {}", human::count(data.documents), unit);
    }
    return text;
  };
  const auto epochs = [](double n) {
    return fmt::format("{:.3g} {}", n, n == 1 ? "epoch" : "epochs");
  };
  const RunData& training = run_.training;
  if (training.tokens > 0) {
    print(fmt::format("  training    {}, {}", content(training), epochs(training.epochs)));
  }
  const RunData& validation = run_.validation;
  if (validation.tokens == 0) return;
  const std::string use = validation.epochs > 0 ? epochs(validation.epochs) + " each time"
                                                : "not used: validation.every_steps = 0";
  print(fmt::format("  validation  {}, {}", content(validation), use));
}

void Console::do_on(const StepEnd& step) {
  if (run_.json) {
    Json line = event("step");
    line.add("step", step.step);
    if (step.passed_over) {
      return print(line.add("skipped", true).add("skipped_steps", step.skipped_steps).text());
    }
    line.add("loss", step.loss)
        .add("grad_norm", step.grad_norm)
        .add("lr", step.lr)
        .add("tokens_per_second", step.tokens_per_second)
        .add("seconds", step.seconds);
    add_work(line, run_, step.tokens_per_second);
    if (step.skipped) line.add("skipped", true);
    if (step.skipped_steps > 0) line.add("skipped_steps", step.skipped_steps);
    if (step.loss_scale > 0) line.add("loss_scale", step.loss_scale);
    for (const auto& [name, value] : step.metrics) line.add(name, value);
    return print(line.text());
  }
  if (!step.passed_over) {
    seconds_ += step.seconds;
    ++steps_;
    if (!step.skipped || std::isfinite(step.loss)) {
      losses_ += step.loss;
      ++with_loss_;
    }
  }
  const bool edge = step.step == run_.first_step || step.step == run_.last_step;
  if (edge || step.step % config_.every_steps == 0) print_step(step);
}

double Console::mean_loss(const StepEnd& step) const {
  return with_loss_ > 0 ? losses_ / static_cast<double>(with_loss_) : step.loss;
}

void Console::print_step(const StepEnd& step) {
  if (step.passed_over) {
    return print(fmt::format("{}  passed over: it was bad before  skipped steps {}",
                             label(step.step),
                             step.skipped_steps));
  }
  std::string line = fmt::format("{}  loss {:.4f}  norm {:.2f}  lr {}",
                                 label(step.step),
                                 without_sign(mean_loss(step)),
                                 without_sign(step.grad_norm),
                                 human::scientific(step.lr));
  if (seconds_ > 0) {
    const double each = seconds_ / static_cast<double>(steps_);
    const double tokens = static_cast<double>(run_.tokens_per_step) / each;
    line += fmt::format("  {} tok/s", human::count(static_cast<i64>(tokens)));
    if (const std::string work = work_text(run_, tokens); !work.empty()) line += "  " + work;
    if (step.step < run_.last_step) {
      line += "  eta " + human::duration(each * static_cast<double>(run_.last_step - step.step));
    }
  }
  for (const auto& [name, value] : step.metrics) line += fmt::format("  {} {:.4g}", name, value);
  if (step.loss_scale > 0) line += "  scale " + human::scientific(step.loss_scale);
  if (step.skipped_steps > 0) line += fmt::format("  skipped steps {}", step.skipped_steps);
  if (step.skipped) line += fmt::format("  skipped: {}", why_skipped(step));
  print(std::move(line));
  seconds_ = losses_ = 0;
  steps_ = with_loss_ = 0;
}

void Console::do_on(const MemoryUse& use) {
  if (!run_.json) return;  // report.html has it
  Json peaks;
  for (int i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    peaks.add(category_name(category), use.stats.peak[static_cast<std::size_t>(i)]);
  }
  print(event("memory")
            .add("step", use.step)
            .add("rank", use.rank)
            .add("peak_bytes", use.stats.total_peak)
            .add("reserved_bytes", use.stats.reserved)
            .add("host_block_bytes", use.stats.host_blocks)
            .add("system_calls", use.stats.system_calls)
            .add("peaks", peaks)
            .text());
}

void Console::do_on(const Validation& validation) {
  if (run_.json) {
    Json told = event("validation").add("step", validation.step).add("val_loss", validation.loss);
    for (const auto& [name, value] : validation.measured) told.add(name, value);
    return print(told.text());
  }
  std::string text = fmt::format("validation loss {:.4f}", validation.loss);
  for (const auto& [name, value] : validation.measured) {
    text += fmt::format(", {} {:.6g}", name, value);
  }
  print(fmt::format("{}  {}", label(validation.step), text));
}

void Console::do_on(const Saved& saved) {
  if (run_.json) {
    return print(event("saved")
                     .add("step", saved.step)
                     .add("path", saved.path)
                     .add("seconds", saved.seconds)
                     .add("waited", saved.waited)
                     .text());
  }
  print(fmt::format(
      "{}  saved {} in {}", label(saved.step), saved.path, human::duration(saved.seconds)));
}

void Console::do_on(const SampleText& sample) {
  if (!run_.json) return;  // report.html has it
  print(event("sample")
            .add("step", sample.step)
            .add("prompt", sample.prompt)
            .add("text", sample.text)
            .text());
}

void Console::do_on(const Failure& failure) {
  // For people the program prints an error itself, once and last.
  if (run_.json) print(event("failure").add("text", failure.text).text());
}

void Console::do_on(const RunEnd& end) {
  if (run_.json) {
    return print(event("end")
                     .add("step", end.step)
                     .add("seconds", end.seconds)
                     .add("interrupted", end.interrupted)
                     .text());
  }
  print(fmt::format("{} after step {} in {}",
                    end.interrupted ? "stopped" : "done",
                    human::count(end.step),
                    human::duration(end.seconds)));
}

std::string Console::label(i64 step) const {
  const std::string last = fmt::format("{}", run_.last_step);
  return fmt::format("step {:>{}}/{}", step, last.size(), last);
}

}  // namespace tessera
