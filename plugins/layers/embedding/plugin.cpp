#include "tessera/plugin.hpp"
#include "bert_embedding.hpp"
#include "embedding.hpp"

TESSERA_PLUGIN(embedding, "0.1.0", "Vocabulary-parallel embeddings") {
  using namespace tessera;
  registrar.add<Layer, Embedding>(
      "embedding", "token embedding cut over the tensor group, plus learned positions");
  registrar.add<Layer, BertEmbedding>("bert_embedding",
                                      "the same plus segments, and a norm of the sum");
}
