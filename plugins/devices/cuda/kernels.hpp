#pragma once
#include "runtime.hpp"
#include "tessera/types.hpp"

namespace tessera::cuda {

/// The kernels of an operation: enqueues it. Specialised in the .cu files for each operation that
/// core_ops.hpp lists: one that is missing is an error of the linker. `workspace` has the bytes
/// that the operation's Workspace<Args> asks for.
template <class Args>
void run(const Args& args, void* workspace, cudaStream_t stream);

/// Bytes of workspace of a launch; 0 unless specialised. Asks no GPU: planned devices use it.
template <class Args>
struct Workspace {
  static i64 bytes(const Args&) { return 0; }
};

}  // namespace tessera::cuda

#include "workspaces.hpp"  // the specialisations
