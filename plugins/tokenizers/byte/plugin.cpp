#include "tessera/plugin.hpp"

#include "byte_tokenizer.hpp"

TESSERA_PLUGIN(byte, "0.1.0", "Tokens are bytes") {
  registrar.add<tessera::Tokenizer, tessera::ByteTokenizer>(
      "byte", "Tokens are the 256 byte values; reads any text, needs no vocabulary file.");
}
