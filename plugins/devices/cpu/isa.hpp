#pragma once
#include <string_view>

#include "kernels.hpp"

namespace tessera::cpu {

/// The kernels for the best instruction set of this processor. The environment variable
/// TESSERA_CPU_ISA (baseline, avx2, avx512, avx512_bf16) asks for a certain one: for tests, and to
/// compare runs between unlike machines. Throws Error when it names none, or one the processor
/// lacks.
const Kernels& choose_kernels();

}  // namespace tessera::cpu
