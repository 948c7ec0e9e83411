// Defaults for schedules that do not override place(), live() or warmup().
#include "tessera/schedule.hpp"

#include <algorithm>
#include <map>

namespace tessera {

int live_peak(const std::vector<Action>& order, int chunk, bool training) {
  if (!training) return 1;    // nothing is kept after the last phase
  std::map<int, int> halves;  // done, by microbatch
  int now = 0, most = 0;
  for (const Action& action : order) {
    if (action.chunk != chunk) continue;
    if (action.kind == Action::F) {
      most = std::max(most, ++now);
    } else if ((halves[action.microbatch] += action.kind == Action::B ? 2 : 1) == 2) {
      --now;
    }
  }
  return most;
}

Place PipelineSchedule::do_place(const PipelineShape& shape, int rank, int chunk) const {
  return {chunk * shape.ranks + rank};
}

int PipelineSchedule::do_live(const PipelineShape& shape, int chunk) const {
  return live_peak(order(shape), chunk, shape.training);
}

int PipelineSchedule::do_warmup(const PipelineShape& shape) const {
  const std::vector<Action> actions = order(shape);
  const auto forward = [](const Action& action) { return action.kind == Action::F; };
  const auto leading = std::ranges::find_if_not(actions, forward) - actions.begin();
  const auto all = std::ranges::count_if(actions, forward);
  return static_cast<int>(leading < all ? leading - 1 : leading);
}

}  // namespace tessera
