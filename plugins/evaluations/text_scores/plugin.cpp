#include "tessera/plugin.hpp"
#include "choices.hpp"
#include "lambada.hpp"
#include "perplexity.hpp"
#include "wikitext.hpp"

TESSERA_PLUGIN(text_scores, "0.1.0", "Measures of models by how likely texts are to them") {
  using namespace tessera;
  registrar.add<EvaluationTask, Perplexity>(
      "perplexity", "of documents: by tokens and by words, and bits a byte");
  registrar.add<EvaluationTask, WikiText>(
      "wikitext", "perplexity of WikiText by the words of the file, after detokenising");
  registrar.add<EvaluationTask, Lambada>("lambada", "accuracy of the last word of texts");
  registrar.add<EvaluationTask, Choices>("choices", "accuracy among several continuations");
}
