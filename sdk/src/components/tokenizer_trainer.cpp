#include "tessera/tokenizer_trainer.hpp"

#include "sdk/src/shared/component_call.hpp"
#include "tessera/error.hpp"

namespace tessera {

TokenizerTrainer::~TokenizerTrainer() = default;

std::string TokenizerTrainer::tokenizer() const {
  return call_component(*this, "tokenizer", [&] { return do_tokenizer(); });
}
std::string TokenizerTrainer::train(const std::vector<std::string>& texts) const {
  require(!texts.empty(), "a vocabulary is trained on texts, and there are none");
  return call_component(*this, "train", [&] {
    std::string bytes = do_train(texts);
    require(!bytes.empty(), "train() returned no bytes");
    return bytes;
  });
}

}  // namespace tessera
