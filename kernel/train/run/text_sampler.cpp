#include "kernel/train/run/text_sampler.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/error.hpp"
#include "tessera/random.hpp"

namespace tessera {

i32 sample_token(const std::vector<float>& logits, double temperature, double uniform) {
  require(!logits.empty(), "there are no logits to choose from");
  const bool finite = std::ranges::all_of(logits, [](float x) { return std::isfinite(x); });
  require(finite, "the model's output is not finite");
  const auto best = std::ranges::max_element(logits);
  if (temperature <= 0) return static_cast<i32>(best - logits.begin());
  std::vector<double> sums;  // of the weights up to each token
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp((static_cast<double>(logit) - *best) / temperature);
    sums.push_back(sum);
  }
  const auto chosen = std::ranges::upper_bound(sums, uniform * sum);
  return static_cast<i32>(std::min(chosen, sums.end() - 1) - sums.begin());
}

std::vector<float> TextSampler::logits(const std::vector<i32>& tokens) {
  require(!tokens.empty(), "there is nothing to continue");
  const i64 seen = std::min<i64>(setup_.batch.sequence, static_cast<i64>(tokens.size()));
  const std::vector<i32> window(tokens.end() - seen, tokens.end());
  return evaluation_.logits(window, seen - 1);
}

i32 TextSampler::next(const std::vector<i32>& tokens, const Sampling& sampling) {
  const u64 key = random_key(sampling.seed, "generate");
  std::vector<float> logits = this->logits(tokens);
  const auto known = static_cast<std::size_t>(setup_.tokenizer->vocabulary());
  logits.resize(std::min(logits.size(), known));
  return sample_token(logits, sampling.temperature, random_uniform(key, tokens.size()));
}

std::string TextSampler::text(const std::string& prompt, i64 tokens, const Sampling& sampling) {
  std::vector<i32> ids = setup_.tokenizer->encode(prompt);
  for (i64 i = 0; i < tokens; ++i) ids.push_back(next(ids, sampling));
  return setup_.tokenizer->decode(ids);
}

}  // namespace tessera
