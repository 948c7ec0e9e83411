#include "tessera/plugin.hpp"

#include "sentencepiece_tokenizer.hpp"
#include "vocabulary_trainer.hpp"

TESSERA_PLUGIN(tokenizer_sentencepiece, "0.1.0", "Tokens of SentencePiece models") {
  registrar.add<tessera::Tokenizer, tessera::SentencePieceTokenizer>(
      "sentencepiece",
      "A .model file of SentencePiece, by its own library; control symbols are text unless special "
      "tokens are parsed.");
  registrar.add<tessera::TokenizerTrainer, tessera::BpeTrainer>(
      "bpe",
      "A .model file of SentencePiece by byte pair encoding: merges of what follows each other "
      "most "
      "often; bytes for rare characters.");
  registrar.add<tessera::TokenizerTrainer, tessera::UnigramTrainer>(
      "unigram",
      "A .model file of SentencePiece by a unigram language model: the tokens that make the texts "
      "likeliest; bytes for rare characters.");
}
