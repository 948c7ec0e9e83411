#pragma once
#include "kernel/cli/options.hpp"
#include "kernel/cli/parse.hpp"

namespace tessera {

// The commands below `data` that read documents.
void add_corpus(Program& program, CLI::App* data, const Commands& commands);
// `tokenizer`, which reads documents too.
void add_tokenizer(Program& program, int (*run)(const TokenizerTrainOptions&));

}  // namespace tessera
