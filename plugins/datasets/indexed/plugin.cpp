#include "tessera/plugin.hpp"

#include "bert_dataset.hpp"
#include "indexed_dataset.hpp"
#include "instructions_dataset.hpp"

TESSERA_PLUGIN(indexed, "0.1.0", "Samples of documents, of sentences, or of prompts and answers") {
  registrar.add<tessera::Dataset, tessera::IndexedDataset>(
      "indexed",
      "Token files of `tessera data build` or Megatron-LM (.bin, .idx), memory-mapped: one, "
      "several "
      "or a blend of weights, split into sets; documents kept apart where wanted.");
  registrar.add<tessera::Dataset, tessera::BertDataset>(
      "bert",
      "Pairs of sentences with masked words, as BERT is trained with, of token files that have a "
      "sequence for each sentence (stage `sentences` of `tessera data build`).");
  registrar.add<tessera::Dataset, tessera::InstructionsDataset>(
      "instructions",
      "Prompts and answers of JSONL files, one a sample or packed; loss on answers alone.");
}
