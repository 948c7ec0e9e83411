#include "cuda_graph.hpp"

#include <utility>

namespace tessera::cuda {

CudaGraph::CudaGraph(const Device& device,
                     cudaGraph_t graph,
                     GraphParts parts,
                     ReplayTasks at_replay)
    : Graph(std::move(at_replay)), device_(device), parts_(std::move(parts)) {
  const cudaError_t result = cudaGraphInstantiate(&exec_, graph, 0);
  (void)cudaGraphDestroy(graph);
  check(result, "cudaGraphInstantiate");
}

CudaGraph::~CudaGraph() {
  if (last_) (void)cudaEventSynchronize(last_->handle());
  (void)cudaGraphExecDestroy(exec_);
}

void CudaGraph::launch(cudaStream_t stream, std::shared_ptr<CudaEvent> after) {
  check(cudaGraphLaunch(exec_, stream), "cudaGraphLaunch");
  last_ = std::move(after);
  last_->record(stream);
}

}  // namespace tessera::cuda
