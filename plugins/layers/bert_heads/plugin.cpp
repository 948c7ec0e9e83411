#include "tessera/plugin.hpp"
#include "bert_head.hpp"
#include "sample_heads.hpp"

TESSERA_PLUGIN(bert_heads, "0.1.0", "Heads of BERT") {
  using namespace tessera;
  registrar.add<Layer, BertHead>("bert_head", "masked words and sentence order");
  registrar.add<Layer, ClassificationHead>("classification_head", "classes of samples");
  registrar.add<Layer, ChoiceHead>("choice_head", "one of several choices");
  registrar.add<Layer, SpanHead>("span_head", "where an answer begins and ends");
  registrar.add<Layer, TokenRows>("token_rows", "no loss: the rows of all tokens, for embeddings");
}
