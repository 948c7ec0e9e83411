#pragma once
#include <memory>
#include <vector>

#include "cuda_event.hpp"
#include "host_tasks.hpp"
#include "tessera/device/capture_rules.hpp"
#include "tessera/device/host_block.hpp"

namespace tessera::cuda {

/// What a graph needs while it can be replayed, beside the memory of its tensors.
struct GraphParts {
  std::vector<std::unique_ptr<HostTask>> tasks;
  std::vector<std::shared_ptr<void>> blocks;  ///< owners of host blocks
  int launches = 0;
};

/// A capture in progress: the rules that every device has, and what the graph will keep.
struct CudaCapture : CaptureRules {
  using CaptureRules::CaptureRules;
  GraphParts parts;
};

/// A captured graph, ready to be launched.
class CudaGraph final : public Graph {
 public:
  /// Takes the graph.
  CudaGraph(const Device& device, cudaGraph_t graph, GraphParts parts, ReplayTasks at_replay);
  /// Waits for the last replay, which uses what goes with it.
  ~CudaGraph() override;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  int launches() const override { return parts_.launches; }
  const Device& device() const { return device_; }
  /// `after` is recorded behind it.
  void launch(cudaStream_t stream, std::shared_ptr<CudaEvent> after);

 private:
  const Device& device_;
  GraphParts parts_;
  cudaGraphExec_t exec_ = nullptr;
  std::shared_ptr<CudaEvent> last_;
};

}  // namespace tessera::cuda
