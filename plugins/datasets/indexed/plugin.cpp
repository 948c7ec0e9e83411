#include "tessera/plugin.hpp"

#include "indexed_dataset.hpp"

TESSERA_PLUGIN(indexed, "0.1.0", "Next-token samples from token files") {
  registrar.add<tessera::Dataset, tessera::IndexedDataset>(
      "indexed",
      "Token files of `tessera data build` or Megatron-LM (.bin, .idx), memory-mapped: one, "
      "several "
      "or a blend of weights, split into sets; documents kept apart where wanted.");
}
