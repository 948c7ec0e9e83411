#pragma once
#include "kernel/cli/options.hpp"
#include "kernel/cli/parse.hpp"

namespace tessera {

// The commands below `data` that read documents.
void add_corpus(Program& program, CLI::App* data, const Commands& commands);

}  // namespace tessera
