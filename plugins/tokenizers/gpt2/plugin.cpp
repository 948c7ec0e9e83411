#include "tessera/plugin.hpp"

#include "gpt2_tokenizer.hpp"

TESSERA_PLUGIN(tokenizer_gpt2, "0.1.0", "GPT-2's tokens") {
  registrar.add<tessera::Tokenizer, tessera::Gpt2Tokenizer>(
      "gpt2",
      "Byte-level BPE of GPT-2, from tokenizer.json, or vocab.json and merges.txt; splits text "
      "with "
      "PCRE2.");
}
