#include "report.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>

#include "tessera/log.hpp"
#include "tessera/run_speed.hpp"

namespace tessera {
namespace {

/// At most a hundredth of the run's time is spent on pages, however slow the disk is.
constexpr double kLeastBetween = 100;

}  // namespace

void Report::Config::describe(Schema<Config>& s) {
  s.field("every_s",
          &Config::every_s,
          "seconds between two pages, at least; the start and the end are written at once")
      .at_least(0.1)
      .at_most(86400);
}

void Report::do_on(const RunStart& start) {
  page_ = {};
  page_.run = start;
  page_.step = start.first_step - 1;
  page_.newest_checkpoint = start.resumed_from;
  if (arguments_.resume_step == 0) {
    set_aside(arguments_.out + "/report.html");
  } else {
    for_each_earlier_step(arguments_.out + "/metrics.jsonl",
                          arguments_.resume_step,
                          [this](const EarlierStep& line) { take(line); });
  }
  write();
}

void Report::take(const EarlierStep& line) {
  const std::map<std::string_view, History*> histories = {{"loss", &page_.loss},
                                                          {"grad_norm", &page_.norm},
                                                          {"lr", &page_.rate},
                                                          {"tokens_per_second", &page_.speed},
                                                          {"val_loss", &page_.validation}};
  line.for_each_number([&](std::string_view key, double value) {
    constexpr std::string_view kOthers[] = {
        "step", "seconds", kFlopsPerSecond, kMfu, "loss_scale", "skipped_steps"};
    if (std::ranges::find(kOthers, key) != std::end(kOthers)) return;
    const auto known = histories.find(key);
    History& history = known == histories.end() ? page_.metrics[std::string(key)] : *known->second;
    history.add(line.step(), value);
  });
  // Lines before the first skipped step do not count them.
  const double skipped = line.number("skipped_steps").value_or(0);
  page_.skipped = static_cast<i64>(skipped);
  if (const auto scale = line.number("loss_scale")) {
    add_scaled_step(page_, line.step(), *scale, skipped);
  }
}

void Report::do_on(const StepEnd& step) {
  page_.step = step.step;
  page_.seconds += step.seconds;
  page_.skipped = step.skipped_steps;
  if (step.passed_over) return write_if_due();
  page_.loss.add(step.step, step.loss);
  page_.norm.add(step.step, step.grad_norm);
  page_.rate.add(step.step, step.lr);
  page_.speed.add(step.step, step.tokens_per_second);
  if (step.loss_scale > 0) {
    const auto skipped = static_cast<double>(step.skipped_steps);
    add_scaled_step(page_, step.step, step.loss_scale, skipped);
  }
  for (const auto& [name, value] : step.metrics) page_.metrics[name].add(step.step, value);
  write_if_due();
}

void Report::do_on(const MemoryUse& use) {
  page_.memory = use;
  write_if_due();
}

void Report::do_on(const Validation& validation) {
  page_.validation.add(validation.step, validation.loss);
  write_if_due();
}

void Report::do_on(const SampleText& sample) {
  constexpr std::size_t kMostSamples = 5;
  page_.samples.push_front(sample);
  if (page_.samples.size() > kMostSamples) page_.samples.pop_back();
  write_if_due();
}

void Report::do_on(const Failure& failure) {
  page_.state = ReportPage::failed;
  page_.failure = failure.text;
  write();
}

void Report::do_on(const RunEnd& end) {
  page_.state = end.interrupted ? ReportPage::stopped : ReportPage::done;
  page_.step = end.step;
  write();
}

void Report::write_if_due() {
  if (Clock::now() >= next_) write();
}

void Report::write() noexcept {
  const auto begin = Clock::now();
  try {
    replace_file(arguments_.out + "/report.html", html_of(page_));
  } catch (const std::exception& error) {
    if (!warned_) log_warning("report: {}; the run goes on", error.what());
    warned_ = true;
  }
  const std::chrono::duration<double> took = Clock::now() - begin;
  const double pause = std::max(config_.every_s, kLeastBetween * took.count());
  next_ = Clock::now() +
          std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(pause));
}

}  // namespace tessera
