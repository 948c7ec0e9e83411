#include "tessera/plugin.hpp"

#include "sentencepiece_tokenizer.hpp"

TESSERA_PLUGIN(tokenizer_sentencepiece, "0.1.0", "Tokens of SentencePiece models") {
  registrar.add<tessera::Tokenizer, tessera::SentencePieceTokenizer>(
      "sentencepiece",
      "A .model file of SentencePiece, by its own library; control symbols are text unless special "
      "tokens are parsed.");
}
