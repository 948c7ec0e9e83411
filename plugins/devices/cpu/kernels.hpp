#pragma once
#include "tessera/device/core_ops.hpp"

namespace tessera::cpu {

/// Products of whole matrices. `bytes` of pack_weight are its result's.
using Products = OperationList<MatmulArgs, LinearWeightArgs, PackWeightArgs>;
/// Operations of simd/, with and without workspace.
using WithWorkspace = OperationList<MatmulArgs,
                                    LinearWeightArgs,
                                    PackWeightArgs,
                                    GroupedMatmulArgs,
                                    GroupedWeightArgs,
                                    AttentionArgs,
                                    AttentionBackwardArgs,
                                    SumSquaresArgs,
                                    WholeCrossEntropyArgs>;
using Plain = CoreOperations::Without<HostOperations>::Without<WithWorkspace>;

template <class Args>
struct PlainKernel {
  void (*run)(const Args&);
};
template <class Args>
struct WorkspaceKernel {
  i64 (*bytes)(const Args&);  ///< on the calling thread's number of threads
  void (*run)(const Args&, void* workspace);
};

template <class, class>
struct KernelTable;
template <class... P, class... W>
struct KernelTable<OperationList<P...>, OperationList<W...>> : PlainKernel<P>...,
                                                               WorkspaceKernel<W>... {
  const char* isa;
};

/// The kernels that exist once for each instruction set. Plain function pointers: nothing of
/// simd/ may be an inline function that the linker could share between instruction sets.
using Kernels = KernelTable<Plain, WithWorkspace>;

namespace baseline {
extern const Kernels kKernels;
}
namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}
namespace avx512_bf16 {
extern const Kernels kKernels;
}
namespace amx {
extern const Kernels kKernels;
}

}  // namespace tessera::cpu
