#pragma once
#include "kernel/cli/options.hpp"
#include "kernel/cli/parse.hpp"

namespace tessera {

// The commands over token files.
void add_data(Program& program, const Commands& commands);

}  // namespace tessera
