#pragma once
#include <string_view>

#include "kernels.hpp"

namespace tessera::cpu {

/// The kernels for `device.isa`: baseline, avx2, avx512, avx512_bf16 or amx; "auto": the best
/// instruction set of this processor. Throws ConfigError for one that the processor lacks, or whose
/// registers the system refuses.
const Kernels& choose_kernels(std::string_view isa);

}  // namespace tessera::cpu
