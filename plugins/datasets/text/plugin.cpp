#include "tessera/plugin.hpp"

#include "text_dataset.hpp"

TESSERA_PLUGIN(text, "0.1.0", "Next-token samples from plain text files") {
  registrar.add<tessera::Dataset, tessera::TextDataset>(
      "text",
      "Plain text files, memory-mapped; windows of sequence_length tokens in a new order each "
      "epoch; documents that the seed chooses are held back for validation.");
}
