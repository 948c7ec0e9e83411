#include "tessera/plan.hpp"

#include <fmt/format.h>

namespace tessera {

std::string_view action_name(PlanAction::Kind kind) {
  constexpr std::string_view kNames[] = {
      "F", "B", "Bi", "Bw", "Recompute", "Exchange", "Gather", "Prepare", "Reduce", "Step"};
  return kNames[kind];
}

std::string Plan::text() const {
  std::string out;
  for (const PlanAction& action : actions) {
    out += action_name(action.kind);
    if (action.phase >= 0) {
      const PhaseInfo& phase = phases[static_cast<std::size_t>(action.phase)];
      out += fmt::format(
          " mb{} chunk{} layer{} {}", action.microbatch, action.chunk, phase.layer, phase.scope);
    }
    if (action.bucket >= 0) out += fmt::format(" bucket{}", action.bucket);
    out += '\n';
  }
  return out;
}

}  // namespace tessera
