#pragma once
#include <barrier>
#include <exception>
#include <functional>
#include <mutex>

namespace tessera {

/// Ranks that measure together, each on a thread. An error of one ends the measurement of all.
class MeasuringTeam {
 public:
  explicit MeasuringTeam(int ranks) : count_(ranks), barrier_(ranks) {}

  /// Calls `body` on each rank's thread; throws what the first to fail has thrown.
  void run(const std::function<void(int rank)>& body);
  /// Waits for all. Throws where another rank has failed, whose error run() throws.
  void meet();
  /// The largest of what the ranks bring.
  double most(double value);

 private:
  // Calls `body` on each rank once, then all go on.
  void update(const std::function<void()>& body);

  const int count_;
  std::barrier<> barrier_;
  std::mutex mutex_;
  std::exception_ptr error_;
  double most_ = 0;
};

}  // namespace tessera
