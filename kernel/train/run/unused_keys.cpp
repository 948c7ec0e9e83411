#include "kernel/train/run/unused_keys.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace tessera {

namespace {

class Unused {
 public:
  Unused(const RunSetup& setup, ProblemList& problems, std::string table)
      : setup_(setup), problems_(problems), table_(std::move(table)) {}

  // Whoever wrote the key that switches others off means it. Where nobody wrote it, it was
  // forgotten.
  bool left(std::string_view key) const { return setup_.maker->origin(table_, key) == "default"; }

  // A dumped configuration has all keys, so a key at its default does not count as set.
  template <class T>
  void add(std::string_view key, const T& value, const T& initial, std::string_view why) const {
    if (value == initial) return;
    problems_.add(fmt::format(
        "{}: [{}] {} has no effect: {}", setup_.maker->origin(table_, key), table_, key, why));
  }

 private:
  const RunSetup& setup_;
  ProblemList& problems_;
  std::string table_;
};

void check_loss_scale(const PrecisionSection& now, const Unused& unused) {
  const PrecisionSection initial;
  std::string why;
  if (!now.scales_loss()) {
    why = fmt::format("compute = \"{}\" scales no loss, only \"fp16\" does", now.compute);
  } else if (now.loss_scale) {
    why = fmt::format("loss_scale = {} does not move, only \"dynamic\" does", *now.loss_scale);
  } else {
    return;
  }
  const auto add = [&](std::string_view key, auto member) {
    unused.add(key, now.*member, initial.*member, why);
  };
  add("loss_scale_start", &PrecisionSection::loss_scale_start);
  add("loss_scale_min", &PrecisionSection::loss_scale_min);
  add("loss_scale_window", &PrecisionSection::loss_scale_window);
  add("loss_scale_growth", &PrecisionSection::loss_scale_growth);
  add("loss_scale_backoff", &PrecisionSection::loss_scale_backoff);
  add("loss_scale_hysteresis", &PrecisionSection::loss_scale_hysteresis);
}

void check_bad_steps(const CheckSection& now, const Unused& unused) {
  const CheckSection initial;
  if (now.on_bad_step == "stop" && unused.left("on_bad_step")) {
    unused.add(
        "bad_steps", now.bad_steps, initial.bad_steps, "on_bad_step = \"stop\" ends at the first");
  }
  if (now.loss_rise == 0 && unused.left("loss_rise")) {
    unused.add("loss_window",
               now.loss_window,
               initial.loss_window,
               "loss_rise = 0 compares no loss with the mean of the window");
  }
}

void check_validation(const ValidationSection& now, const Unused& unused) {
  const ValidationSection initial;
  if (now.every_steps == 0 && unused.left("every_steps")) {
    unused.add("samples", now.samples, initial.samples, "every_steps = 0 never validates");
  }
  if (now.sample_tokens == 0 && unused.left("sample_tokens")) {
    unused.add("sample_prompt",
               now.sample_prompt,
               initial.sample_prompt,
               "sample_tokens = 0 generates no text");
  }
}

}  // namespace

void check_unused_keys(const RunSetup& setup, ProblemList& problems) {
  const RunConfig& config = *setup.config;
  check_loss_scale(config.precision, {setup, problems, "precision"});
  check_bad_steps(config.check, {setup, problems, "check"});
  check_validation(config.validation, {setup, problems, "validation"});
}

}  // namespace tessera
