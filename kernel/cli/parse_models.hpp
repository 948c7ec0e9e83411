#pragma once
#include "kernel/cli/options.hpp"
#include "kernel/cli/parse.hpp"

namespace tessera {

// The commands over checkpoints and models of other programs.
void add_generate(Program& program, int (*run)(const GenerateOptions&));
void add_eval(Program& program, int (*run)(const EvalOptions&));
void add_checkpoint(Program& program, const Commands& commands);
void add_convert(Program& program, int (*run)(const ConvertOptions&));

}  // namespace tessera
