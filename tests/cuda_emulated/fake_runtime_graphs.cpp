// Capture of streams, and graphs.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "fake_runtime.hpp"

namespace tessera::cuda::emulated {
namespace {

/// Every node has to lead to the end of the stream where the capture began.
bool joined(const Capture& capture, const std::vector<std::size_t>& tail) {
  std::vector<char> followed(capture.nodes.size());
  for (const CUgraphNode_st& node : capture.nodes) {
    for (const std::size_t before : node.after) followed[before] = 1;
  }
  for (const std::size_t last : tail) followed[last] = 1;
  return std::find(followed.begin(), followed.end(), 0) == followed.end();
}

}  // namespace

cudaError_t enqueue(cudaStream_t stream, Work work) {
  if (!alive(stream)) return cudaErrorInvalidResourceHandle;
  if (stream->capture == 0) {
    stream->push(std::move(work));
    return cudaSuccess;
  }
  Capture& capture = state().captures.at(stream->capture);
  if (capture.spoiled) return cudaErrorStreamCaptureInvalidated;
  capture.nodes.push_back({std::move(work), stream->tail});
  stream->tail = {capture.nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t enqueue_waiting(cudaStream_t stream,
                            std::function<void()> begin,
                            std::function<bool()> done) {
  const auto begun = [begin] {
    begin();
    return std::string();
  };
  return call([&](Lock&) {
    if (!alive(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture == 0) {
      return enqueue(stream, [begun, done] {
        begun();
        while (!done()) wait_a_moment();
        return std::string();
      });
    }
    const cudaError_t result = enqueue(stream, begun);
    if (result == cudaSuccess) {
      state().captures.at(stream->capture).nodes.back().done = std::move(done);
    }
    return result;
  });
}

void wait_a_moment() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

cudaError_t spoil(u64 capture, cudaError_t why) {
  const auto found = state().captures.find(capture);
  if (found == state().captures.end()) return why;
  return std::exchange(found->second.spoiled, true) ? cudaErrorStreamCaptureInvalidated : why;
}

cudaError_t refuse_in_capture() {
  cudaError_t result = cudaSuccess;
  for (auto& [id, capture] : state().captures) {
    const bool mine = capture.thread == std::this_thread::get_id() &&
                      capture.mode != cudaStreamCaptureModeRelaxed;
    const bool anyones = capture.mode == cudaStreamCaptureModeGlobal &&
                         this_thread.capture_mode == cudaStreamCaptureModeGlobal;
    if (this_thread.capture_mode == cudaStreamCaptureModeRelaxed || !(mine || anyones)) continue;
    capture.spoiled = true;
    result = cudaErrorStreamCaptureUnsupported;
  }
  return result;
}

}  // namespace tessera::cuda::emulated

using namespace tessera::cuda::emulated;

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call([&](Lock&) {
    std::swap(*mode, this_thread.capture_mode);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call([&](Lock&) {
    if (!alive(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture != 0) return cudaErrorIllegalState;
    stream->capture = ++state().last_capture;
    state().captures.emplace(stream->capture, Capture{mode, std::this_thread::get_id(), stream});
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call([&](Lock&) {
    *graph = nullptr;
    if (!alive(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture == 0) return cudaErrorIllegalState;
    const auto found = state().captures.find(stream->capture);
    const Capture& begun = found->second;
    if (begun.origin != stream) return spoil(stream->capture, cudaErrorStreamCaptureUnmatched);
    if (begun.mode != cudaStreamCaptureModeRelaxed && begun.thread != std::this_thread::get_id()) {
      return spoil(stream->capture, cudaErrorStreamCaptureWrongThread);
    }
    Capture capture = std::move(found->second);
    const std::vector<std::size_t> tail = stream->tail;
    for (CUstream_st& each : state().streams) {
      if (each.capture != found->first) continue;
      each.capture = 0;
      each.tail.clear();
    }
    state().captures.erase(found);
    if (capture.spoiled) return cudaErrorStreamCaptureInvalidated;
    if (!joined(capture, tail)) return cudaErrorStreamCaptureUnjoined;
    *graph = &state().graphs.emplace_back();
    (*graph)->nodes = std::move(capture.nodes);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call([&](Lock&) {
    if (!alive(stream)) return cudaErrorInvalidResourceHandle;
    *status = cudaStreamCaptureStatusNone;
    if (stream->capture != 0) {
      *status = state().captures.at(stream->capture).spoiled ? cudaStreamCaptureStatusInvalidated
                                                             : cudaStreamCaptureStatusActive;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return call([&](Lock&) {
    if (!alive(graph)) return cudaErrorInvalidValue;
    if (nodes != nullptr) {
      for (std::size_t i = 0; i < *count; ++i) {
        nodes[i] = i < graph->nodes.size() ? &graph->nodes[i] : nullptr;
      }
    }
    *count = graph->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&](Lock&) {
    if (!alive(graph)) return cudaErrorInvalidValue;
    graph->alive = false;
    graph->nodes.clear();
    return cudaSuccess;
  });
}

CUgraphExec_st::CUgraphExec_st(std::vector<CUgraphNode_st> from, std::uint64_t seed)
    : nodes(std::move(from)), followers(nodes.size()), random(seed) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::size_t before : nodes[i].after) followers[before].push_back(i);
  }
}

std::string CUgraphExec_st::run() {
  std::vector<std::size_t> missing, ready;
  for (const CUgraphNode_st& node : nodes) {
    if (node.after.empty()) ready.push_back(missing.size());
    missing.push_back(node.after.size());
  }
  const auto ended = [&](std::size_t node) {
    for (const std::size_t follower : followers[node]) {
      if (--missing[follower] == 0) ready.push_back(follower);
    }
  };
  std::vector<std::size_t> waiting;
  while (!ready.empty() || !waiting.empty()) {
    const auto over = std::find_if(
        waiting.begin(), waiting.end(), [&](std::size_t node) { return nodes[node].done(); });
    if (over != waiting.end()) {
      const std::size_t node = *over;
      waiting.erase(over);
      ended(node);
    } else if (ready.empty()) {
      wait_a_moment();
    } else {
      std::swap(ready[random() % ready.size()], ready.back());
      const std::size_t next = ready.back();
      ready.pop_back();
      if (std::string wrong = nodes[next].work(); !wrong.empty()) return wrong;
      if (nodes[next].done) {
        waiting.push_back(next);
      } else {
        ended(next);
      }
    }
  }
  return {};
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return call([&](Lock&) {
    if (!alive(graph)) return cudaErrorInvalidValue;
    auto& execs = state().execs;
    *exec = &execs.emplace_back(graph->nodes, state().machine.seed * 4096 + execs.size());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return call([&](Lock&) {
    if (!alive(exec) || !alive(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture != 0) return spoil(stream->capture, cudaErrorStreamCaptureUnsupported);
    stream->push([exec, before = exec->stream, item = exec->item] {
      if (before != nullptr) before->wait_for(item);  // launches of one graph do not overlap
      return exec->run();
    });
    exec->stream = stream;
    exec->item = stream->enqueued;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return call([&](Lock& lock) {
    if (!alive(exec)) return cudaErrorInvalidValue;
    exec->alive = false;
    const cudaError_t result =
        exec->stream != nullptr ? wait(lock, *exec->stream, exec->item) : cudaSuccess;
    exec->nodes.clear();
    exec->followers.clear();
    return result;
  });
}
