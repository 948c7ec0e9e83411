#include "kernel/train/run/changes_since.hpp"

#include <algorithm>

#include "kernel/config/curve_keys.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

// Today's schedule for a run of `steps` steps; nullptr where it does not take that many.
std::shared_ptr<LrSchedule> schedule_for(i64 steps, const RunSetup& setup) {
  try {
    LrArguments arguments{steps};
    return setup.maker->make(setup.config->lr, arguments);
  } catch (const ConfigError&) {
    return nullptr;
  }
}

// An update at which two schedules have different rates, among those of `steps` steps.
std::optional<i64> other_rate(const LrSchedule& now, const LrSchedule& then, i64 steps) {
  constexpr i64 kLooks = 1000;
  for (i64 look = 1; look <= kLooks; ++look) {
    const i64 update = std::max<i64>(1, steps / kLooks * look + steps % kLooks * look / kLooks);
    if (now.rate(update) != then.rate(update)) return update;
  }
  return std::nullopt;
}

}  // namespace

Changes changes_since(const CheckpointInfo& info, const RunSetup& setup) {
  try {
    const Resolved then = setup.resolve(info.config);
    return {differences(*then.tree, *setup.tree), then.run.run.steps, ""};
  } catch (const Error& error) {
    const std::string_view text = error.what();
    return {{}, std::nullopt, std::string(text.substr(0, text.find('\n')))};
  }
}

std::string indented(const std::vector<std::string>& lines) {
  constexpr std::size_t kShown = 30;
  const std::size_t shown = std::min(lines.size(), kShown);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += "\n  " + lines[i];
  if (shown < lines.size()) text += fmt::format("\n  and {} more", lines.size() - shown);
  return text;
}

std::string told(const Changes& since) {
  if (!since.unknown.empty()) {
    return fmt::format(
        "which keys changed is not known, this version does not take the checkpoint's "
        "configuration: {}",
        since.unknown);
  }
  const std::vector<std::string> lines = changes(since.keys);
  return lines.empty() ? "no key has changed" : "changed since then:" + indented(lines);
}

void warn_of_length(const Changes& since, const RunSetup& setup) {
  for (const Difference& key : since.keys) {
    if (!follows_length(key)) continue;
    log_warning("{0} follows {1}: it was {2} and is {3} from here on; --set {0}={2} keeps it",
                key.path,
                key.from,
                *key.left,
                *key.right);
  }
  const i64 steps = setup.config->run.steps;
  if (setup.lr == nullptr || !since.steps || *since.steps == steps) return;
  const std::shared_ptr<LrSchedule> then = schedule_for(*since.steps, setup);
  if (then == nullptr) return;
  const std::optional<i64> update = other_rate(*setup.lr, *then, std::min(*since.steps, steps));
  if (!update) return;
  log_warning(
      "[lr] type = \"{}\" follows run.steps, which was {} and is {}: the learning rate of update "
      "{} "
      "is {:g} now, and not {:g}",
      setup.config->lr.type,
      *since.steps,
      steps,
      *update,
      setup.lr->rate(*update),
      then->rate(*update));
}

}  // namespace tessera
