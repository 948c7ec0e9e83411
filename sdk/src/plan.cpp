#include "tessera/plan.hpp"

#include <fmt/format.h>

namespace tessera {

std::string_view action_name(PlanAction::Kind kind) {
  constexpr std::string_view kNames[] = {
      "F", "B", "Bi", "Bw", "Recompute", "Exchange", "Gather", "Prepare", "Reduce", "Step"};
  return kNames[kind];
}

namespace {

std::string messages(std::string_view what, const std::vector<PlanAction::Message>& list) {
  std::string out;
  for (const PlanAction::Message& message : list) {
    out += fmt::format(" {} {} mb{} stage{} {} rank {}",
                       what,
                       message.forward ? "F" : "B",
                       message.microbatch,
                       message.stage,
                       what == "send" ? "to" : "from",
                       message.peer);
  }
  return out;
}

}  // namespace

std::string Plan::text(const PlanAction& action) const {
  std::string out(action_name(action.kind));
  if (action.microbatch >= 0) out += fmt::format(" mb{} chunk{}", action.microbatch, action.chunk);
  if (action.phase >= 0 && action.phase < static_cast<int>(phases.size())) {
    const PhaseInfo& phase = phases[static_cast<std::size_t>(action.phase)];
    if (phase.layer >= 0) out += fmt::format(" layer{}", phase.layer);
    out += ' ' + phase.scope;
  }
  if (action.bucket >= 0) {
    const auto bucket = static_cast<std::size_t>(action.bucket);
    out += fmt::format(" bucket{}", bucket);
    if (bucket < bucket_groups.size()) out += " over " + bucket_groups[bucket];
  }
  return out + messages("send", action.sends) + messages("receive", action.receives);
}

std::string Plan::text() const {
  std::string out;
  for (const PlanAction& action : actions) out += text(action) + '\n';
  return out;
}

}  // namespace tessera
