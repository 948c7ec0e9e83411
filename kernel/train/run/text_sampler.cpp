#include "kernel/train/run/text_sampler.hpp"

#include <algorithm>
#include <span>

#include "tessera/error.hpp"

namespace tessera {

std::vector<float> TextSampler::logits(const std::vector<i32>& tokens) {
  require(!tokens.empty(), "there is nothing to continue");
  const i64 length = setup_.batch.sequence, half = std::max<i64>(1, length / 2);
  const i64 beyond = std::max<i64>(0, static_cast<i64>(tokens.size()) - length);
  const i64 first = (beyond + half - 1) / half * half;
  const std::span<const i32> window = std::span(tokens).subspan(static_cast<std::size_t>(first));
  if (cache_ == nullptr) return evaluation_.logits(window, nullptr);
  // The last token runs in any case: its logits are not kept.
  const auto known = std::ranges::mismatch(kept_, window.first(window.size() - 1)).in1;
  if (known != kept_.end() || kept_.empty()) {
    cache_->restart();
    kept_.clear();
  }
  std::vector<float> logits = evaluation_.logits(window.subspan(kept_.size()), cache_.get());
  kept_.assign(window.begin(), window.end());
  return logits;
}

i32 TextSampler::next(const std::vector<i32>& tokens, const Sampling& sampling, i64 prompt) {
  std::vector<float> logits = this->logits(tokens);
  const auto known = static_cast<std::size_t>(setup_.tokenizer->vocabulary());
  logits.resize(std::min(logits.size(), known));
  const auto position = static_cast<i64>(tokens.size());
  return choose_token(token_weights(logits, tokens, sampling),
                      sampling_number(sampling.seed, prompt, position));
}

std::string TextSampler::text(const std::string& prompt, i64 tokens, const Sampling& sampling) {
  kept_.clear();  // the model may have been trained since
  std::vector<i32> ids = setup_.tokenizer->encode(prompt, SpecialTexts::parsed);
  for (i64 i = 0; i < tokens; ++i) ids.push_back(next(ids, sampling));
  return setup_.tokenizer->decode(ids);
}

}  // namespace tessera
