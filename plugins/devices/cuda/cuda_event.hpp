#pragma once
#include <memory>
#include <vector>

#include "runtime.hpp"
#include "tessera/device/capture_rules.hpp"
#include "tessera/device/device.hpp"

namespace tessera::cuda {

/// CUDA's events that nobody uses, to be recorded again: making one is a system call. It lives as
/// long as the last event that came from it.
class EventPool {
 public:
  EventPool() = default;
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  cudaEvent_t take(Timing timing);
  void give_back(cudaEvent_t event, Timing timing);

 private:
  std::vector<cudaEvent_t>& of(Timing timing) { return timing == Timing::yes ? timed_ : plain_; }
  std::vector<cudaEvent_t> plain_, timed_;
};

/// What an Event of the device names. Used on the rank's thread.
class CudaEvent {
 public:
  CudaEvent(std::shared_ptr<EventPool> pool, Timing timing);
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  cudaEvent_t handle() const { return event_; }
  bool timed() const { return timing_ == Timing::yes; }
  void record(cudaStream_t stream);
  /// Has its stream got there? Throws what failed on the GPU. Once true, CUDA is not asked again.
  bool reached();

  CapturePoint point;  ///< where it was recorded in a capture

 private:
  std::shared_ptr<EventPool> pool_;
  Timing timing_;
  cudaEvent_t event_;
  bool reached_ = false;
};

inline std::shared_ptr<CudaEvent> cuda_event(const Event& event) {
  return std::static_pointer_cast<CudaEvent>(event.state);
}

}  // namespace tessera::cuda
