// What a schedule that says nothing of it does.
#include "tessera/schedule.hpp"

#include <algorithm>

#include "kernel/schedule/orders.hpp"

namespace tessera {

Place PipelineSchedule::place(const PipelineShape& shape, int rank, int chunk) const {
  return {chunk * shape.stages + rank};
}

int PipelineSchedule::live(const PipelineShape& shape, int chunk) const {
  return live_peak(order(shape), chunk, shape.training);
}

int PipelineSchedule::warmup(const PipelineShape& shape) const {
  const std::vector<Action> actions = order(shape);
  const auto forward = [](const Action& action) { return action.kind == Action::F; };
  const auto leading = std::ranges::find_if_not(actions, forward) - actions.begin();
  const auto all = std::ranges::count_if(actions, forward);
  return static_cast<int>(leading < all ? leading - 1 : leading);
}

}  // namespace tessera
