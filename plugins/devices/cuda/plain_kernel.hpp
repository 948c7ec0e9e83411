#pragma once
#include "cuda_stream.hpp"
#include "kernels.hpp"
#include "tessera/operation.hpp"

namespace tessera::cuda {

/// The kernel of an operation that run<Args> enqueues.
template <class Args>
Kernel plain_kernel() {
  return make_kernel<Args>(
      [](const Args& args) {
        return LaunchRequirements{.workspace_bytes = Workspace<Args>::bytes(args)};
      },
      [](const Args& args, void* workspace, Stream& stream) {
        run(args, workspace, handle(stream));
      });
}

}  // namespace tessera::cuda
