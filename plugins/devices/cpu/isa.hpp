#pragma once
#include "kernels.hpp"

namespace tessera::cpu {

/// The kernels for the best instruction set of this processor that needs not be asked for. The
/// environment variable TESSERA_CPU_ISA (baseline, avx2, avx512, avx512_bf16, amx, amx_emulated)
/// asks for a certain one: for tests, and to compare runs between unlike machines. Throws Error
/// when it names none, one the processor lacks, or one whose registers the system refuses.
const Kernels& choose_kernels();

}  // namespace tessera::cpu
