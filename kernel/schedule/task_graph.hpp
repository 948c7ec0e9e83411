#pragma once
#include <span>
#include <vector>

namespace tessera {

/// Tasks with durations that wait for each other, some of them in queues that take one at a time in
/// the order of add(). Plays them: everything starts as soon as it may. What every simulation of
/// this folder runs on; a task that never starts is part of a deadlock or waits for one.
class TaskGraph {
 public:
  static constexpr int kNoQueue = -1;

  int add(double duration, int queue = kNoQueue);
  /// `task` starts once `before` ended.
  void after(int task, int before) {
    edges_[static_cast<std::size_t>(before)].push_back(task);
    ++missing_[static_cast<std::size_t>(task)];
  }
  void run();

  bool done(int task) const { return done_[static_cast<std::size_t>(task)]; }
  double start(int task) const { return start_[static_cast<std::size_t>(task)]; }
  double end(int task) const { return start(task) + duration_[static_cast<std::size_t>(task)]; }

 private:
  std::vector<std::vector<int>> edges_;
  std::vector<int> missing_;  // how many tasks each still waits for
  std::vector<double> duration_, start_;
  std::vector<bool> done_;
  std::vector<int> last_;  // of each queue
};

}  // namespace tessera
