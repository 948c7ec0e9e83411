#pragma once
#include <vector>

#include "tessera/schedule.hpp"

namespace tessera {

/// `warmup` forwards, then one forward and one backward in turn, then the backwards that are left.
inline std::vector<Action> one_by_one(const std::vector<Action>& forwards,
                                      const std::vector<Action>& backwards,
                                      int warmup) {
  std::vector<Action> actions(forwards.begin(), forwards.begin() + warmup);
  auto backward = backwards.begin();
  for (auto forward = forwards.begin() + warmup; forward != forwards.end(); ++forward) {
    actions.push_back(*forward);
    if (backward != backwards.end()) actions.push_back(*backward++);
  }
  actions.insert(actions.end(), backward, backwards.end());
  return actions;
}

/// One pass of every microbatch.
inline std::vector<Action> in_turn(Action::Kind kind, int microbatches) {
  std::vector<Action> actions;
  actions.reserve(static_cast<std::size_t>(microbatches));
  for (int i = 0; i < microbatches; ++i) actions.push_back({kind, i});
  return actions;
}

}  // namespace tessera
