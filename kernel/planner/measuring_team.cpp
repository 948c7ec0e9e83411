#include "kernel/planner/measuring_team.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include "tessera/error.hpp"

namespace tessera {

void MeasuringTeam::run(const std::function<void(int rank)>& body) {
  const auto leave_failed = [this] {
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    barrier_.arrive_and_drop();
  };
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < count_; ++rank) {
    try {
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (...) {
          return leave_failed();
        }
        barrier_.arrive_and_drop();
      });
    } catch (...) {  // the system has no more threads, and the others wait for this one
      leave_failed();
    }
  }
  threads.clear();
  if (error_) std::rethrow_exception(error_);
}

void MeasuringTeam::meet() {
  barrier_.arrive_and_wait();
  const std::lock_guard lock(mutex_);
  if (error_) fail("another rank has failed");
}

double MeasuringTeam::most(double value) {
  update([&] { most_ = std::max(most_, value); });
  double most = 0;
  update([&] { most = most_; });
  update([&] { most_ = 0; });
  return most;
}

void MeasuringTeam::update(const std::function<void()>& body) {
  {
    const std::lock_guard lock(mutex_);
    body();
  }
  meet();
}

}  // namespace tessera
