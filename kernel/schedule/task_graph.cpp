#include "kernel/schedule/task_graph.hpp"

#include <algorithm>

namespace tessera {

int TaskGraph::add(double duration, int queue) {
  const int task = static_cast<int>(duration_.size());
  edges_.emplace_back();
  missing_.push_back(0);
  duration_.push_back(duration);
  start_.push_back(0);
  done_.push_back(false);
  if (queue != kNoQueue) {
    const auto q = static_cast<std::size_t>(queue);
    if (last_.size() <= q) last_.resize(q + 1, -1);
    if (last_[q] >= 0) after(task, last_[q]);
    last_[q] = task;
  }
  return task;
}

void TaskGraph::run() {
  std::vector<int> ready;
  for (std::size_t i = 0; i < missing_.size(); ++i) {
    if (missing_[i] == 0) ready.push_back(static_cast<int>(i));
  }
  while (!ready.empty()) {
    const int task = ready.back();
    ready.pop_back();
    done_[static_cast<std::size_t>(task)] = true;
    for (const int next : edges_[static_cast<std::size_t>(task)]) {
      const auto n = static_cast<std::size_t>(next);
      start_[n] = std::max(start_[n], end(task));
      if (--missing_[n] == 0) ready.push_back(next);
    }
  }
}

}  // namespace tessera
