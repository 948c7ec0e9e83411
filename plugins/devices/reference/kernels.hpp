#pragma once
#include "tessera/device/core_ops.hpp"

namespace tessera::reference {

// Every kernel reads its inputs as double, computes in double, sums in a fixed order and rounds
// once, when it stores. Threads share independent results only, so their number never shows.

/// The kernel of an operation. The sources specialise it for each core operation of Plain: one
/// that is missing is an error of the linker.
template <class Args>
void run(const Args& args);

/// HostDevice's operations, but fill and copy, which are here as well.
using OfHostDevice = HostOperations::Without<OperationList<FillArgs, CopyArgs>>;
/// All others but the products, which take workspace.
using Plain =
    CoreOperations::Without<OfHostDevice>::Without<OperationList<MatmulArgs, LinearWeightArgs>>;

Kernel make_matmul_kernel();
Kernel make_linear_weight_kernel();

}  // namespace tessera::reference
