#pragma once
#include "tessera/ops/attention.hpp"
#include "tessera/ops/cross_entropy.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/embedding.hpp"
#include "tessera/ops/matmul.hpp"
#include "tessera/ops/moe.hpp"
#include "tessera/ops/norm.hpp"
#include "tessera/ops/rotary.hpp"
#include "tessera/ops/router.hpp"
#include "tessera/ops/update.hpp"

namespace tessera::cpu::TESSERA_ISA {

/// The kernel of an operation on the instruction set that this translation unit is compiled for.
/// The sources of simd/ specialise it for each operation of Plain (kernels.hpp): one that is
/// missing is an error of the linker.
template <class Args>
void run(const Args& args);

/// The same for the operations of WithWorkspace: the workspace in bytes on the calling thread's
/// number of threads, and the kernel.
template <class Args>
i64 workspace_bytes(const Args& args);
template <class Args>
void run(const Args& args, void* workspace);

}  // namespace tessera::cpu::TESSERA_ISA
