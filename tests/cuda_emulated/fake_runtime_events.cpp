// Events: places in streams. Between streams they are waited for by their item's word.
#include <chrono>

#include "fake_runtime.hpp"

namespace tessera::cuda::emulated {
namespace {

/// Why the host may not ask about an event; cudaSuccess where it may.
cudaError_t refuse_question(cudaEvent_t event) {
  if (!alive(event)) return cudaErrorInvalidResourceHandle;
  if (event->capture != 0) return spoil(event->capture, cudaErrorCapturedEvent);
  return refuse_in_capture();
}

bool reached(cudaEvent_t event) {
  return event->stream == nullptr || event->stream->reached(event->item);
}

/// A captured stream, or one that joins the capture, follows the event's nodes.
cudaError_t follow(cudaStream_t stream, cudaEvent_t event) {
  const auto capture = state().captures.find(event->capture);
  if (capture == state().captures.end()) return spoil(stream->capture, cudaErrorCapturedEvent);
  if (stream->capture != 0 && stream->capture != event->capture) {
    spoil(stream->capture, cudaErrorStreamCaptureMerge);
    return spoil(event->capture, cudaErrorStreamCaptureMerge);
  }
  if (capture->second.spoiled) return cudaErrorStreamCaptureInvalidated;
  stream->capture = event->capture;
  stream->tail.insert(stream->tail.end(), event->tail.begin(), event->tail.end());
  return cudaSuccess;
}

}  // namespace
}  // namespace tessera::cuda::emulated

using namespace tessera::cuda::emulated;

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&](Lock&) {
    if ((flags & ~(cudaEventBlockingSync | cudaEventDisableTiming)) != 0) {
      return cudaErrorInvalidValue;
    }
    *event = &state().events.emplace_back(this_thread.gpu, (flags & cudaEventDisableTiming) == 0);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&](Lock&) {
    if (!alive(event)) return cudaErrorInvalidResourceHandle;
    event->alive = false;
    event->tail = {};
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&](Lock&) {
    if (!alive(event) || !alive(stream) || event->gpu != stream->gpu) {
      return cudaErrorInvalidResourceHandle;
    }
    if (stream->capture != 0 && state().captures.at(stream->capture).spoiled) {
      return cudaErrorStreamCaptureInvalidated;
    }
    event->capture = stream->capture;
    event->tail = stream->tail;
    event->stream = nullptr;
    if (event->capture != 0) return cudaSuccess;
    if (event->timing) {
      stream->push([event] {
        event->nanoseconds = std::chrono::steady_clock::now().time_since_epoch().count();
        return std::string();
      });
    }
    event->stream = stream;
    event->item = stream->enqueued;
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&](Lock&) {
    const cudaError_t refused = refuse_question(event);
    if (refused != cudaSuccess) return refused;
    return reached(event) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&](Lock& lock) {
    const cudaError_t refused = refuse_question(event);
    if (refused != cudaSuccess || event->stream == nullptr) return refused;
    return wait(lock, *event->stream, event->item);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return call([&](Lock&) {
    for (cudaEvent_t event : {begin, end}) {
      const cudaError_t refused = refuse_question(event);
      if (refused != cudaSuccess) return refused;
      if (!event->timing || event->stream == nullptr) return cudaErrorInvalidResourceHandle;
    }
    if (!reached(begin) || !reached(end)) return cudaErrorNotReady;
    *milliseconds = static_cast<float>(end->nanoseconds - begin->nanoseconds) * 1e-6F;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call([&](Lock&) {
    if (!alive(stream) || !alive(event)) return cudaErrorInvalidResourceHandle;
    if (flags != 0) return cudaErrorInvalidValue;
    if (event->capture != 0) return follow(stream, event);
    if (event->stream == nullptr) return cudaSuccess;  // never recorded
    if (stream->capture != 0) return spoil(stream->capture, cudaErrorStreamCaptureIsolation);
    if (event->stream == stream) return cudaSuccess;
    stream->push([other = event->stream, item = event->item] {
      other->wait_for(item);
      return std::string();
    });
    return cudaSuccess;
  });
}
