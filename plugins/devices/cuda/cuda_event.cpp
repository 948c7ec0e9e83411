#include "cuda_event.hpp"

#include <utility>

namespace tessera::cuda {

EventPool::~EventPool() {
  for (const auto* events : {&plain_, &timed_}) {
    for (cudaEvent_t event : *events) (void)cudaEventDestroy(event);
  }
}

cudaEvent_t EventPool::take(Timing timing) {
  std::vector<cudaEvent_t>& free = of(timing);
  if (!free.empty()) {
    cudaEvent_t event = free.back();
    free.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event,
                                 timing == Timing::yes ? cudaEventDefault : cudaEventDisableTiming),
        "cudaEventCreateWithFlags");
  return event;
}

void EventPool::give_back(cudaEvent_t event, Timing timing) { of(timing).push_back(event); }

CudaEvent::CudaEvent(std::shared_ptr<EventPool> pool, Timing timing)
    : pool_(std::move(pool)), timing_(timing), event_(pool_->take(timing)) {}

CudaEvent::~CudaEvent() { pool_->give_back(event_, timing_); }

void CudaEvent::record(cudaStream_t stream) {
  check(cudaEventRecord(event_, stream), "cudaEventRecord");
}

bool CudaEvent::reached() {
  if (reached_) return true;
  const cudaError_t result = cudaEventQuery(event_);
  if (result == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  check(result, "work on the GPU");
  return reached_ = true;
}

}  // namespace tessera::cuda
