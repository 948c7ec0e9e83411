#include "tessera/plugin.hpp"

#include "gpt2_tokenizer.hpp"
#include "huggingface_tokenizer.hpp"
#include "wordpiece_tokenizer.hpp"

TESSERA_PLUGIN(tokenizer_bpe, "0.1.0", "Tokens by byte pair encoding and WordPiece") {
  registrar.add<tessera::Tokenizer, tessera::Gpt2Tokenizer>(
      "gpt2",
      "Byte-level BPE of GPT-2, from tokenizer.json, or vocab.json and merges.txt; splits text "
      "with "
      "PCRE2.");
  registrar.add<tessera::Tokenizer, tessera::HuggingFaceTokenizer>(
      "huggingface",
      "BPE or WordPiece as a tokenizer.json of Hugging Face tokenizers says it; splits text with "
      "PCRE2.");
  registrar.add<tessera::Tokenizer, tessera::WordPieceTokenizer>(
      "wordpiece", "WordPiece of BERT, from its vocab.txt; Unicode by utf8proc.");
}
