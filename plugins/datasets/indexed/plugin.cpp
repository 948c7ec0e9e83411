#include "tessera/plugin.hpp"

#include "indexed_dataset.hpp"
#include "instructions_dataset.hpp"

TESSERA_PLUGIN(indexed, "0.1.0", "Samples of documents, or of prompts and answers") {
  registrar.add<tessera::Dataset, tessera::IndexedDataset>(
      "indexed",
      "Token files of `tessera data build` or Megatron-LM (.bin, .idx), memory-mapped: one, "
      "several "
      "or a blend of weights, split into sets; documents kept apart where wanted.");
  registrar.add<tessera::Dataset, tessera::InstructionsDataset>(
      "instructions",
      "Prompts and answers of JSONL files, one a sample or packed; loss on answers alone.");
}
