#include "tessera/plugin.hpp"
#include "bert_head.hpp"

TESSERA_PLUGIN(bert_heads, "0.1.0", "Heads of BERT") {
  using namespace tessera;
  registrar.add<Layer, BertHead>("bert_head", "masked words and sentence order");
}
