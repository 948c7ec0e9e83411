#pragma once
#include "tessera/core_ops.hpp"

namespace tessera::reference {

// Every kernel reads its inputs as double, computes in double, sums in a fixed order and rounds
// once, when it stores. Threads share independent results only, so their number never shows.

/// The kernel of an operation. The sources specialise it for each core operation of Plain: one
/// that is missing is an error of the linker.
template <class Args>
void run(const Args& args);

/// All but the product, which takes workspace, and what concerns a few scalars and is HostDevice's.
using Plain = CoreOperations::Without<
    OperationList<MatmulArgs, ReciprocalArgs, SumBlocksArgs, StepScalarsArgs>>;

Kernel make_matmul_kernel();

}  // namespace tessera::reference
