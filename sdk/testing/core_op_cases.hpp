#pragma once
#include <vector>

#include "op_check.hpp"

namespace tessera::testing {

/// Calls of every operation of core_ops.hpp: sizes that no vector width divides, one row, no row,
/// strides where the headers allow them, outputs that are inputs where they may be. A new device
/// passes when op_check finds nothing in any of them. `dtype`: of the
/// data, any floating one.
TESSERA_API std::vector<OpCase> core_op_cases(DType dtype);

}  // namespace tessera::testing
