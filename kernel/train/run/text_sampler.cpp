#include "kernel/train/run/text_sampler.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tessera/error.hpp"

namespace tessera {

std::span<const i32> TextSampler::window_of(const std::vector<i32>& tokens) const {
  require(!tokens.empty(), "there is nothing to continue");
  const i64 length = setup_.batch.sequence, half = std::max<i64>(1, length / 2);
  const i64 beyond = std::max<i64>(0, static_cast<i64>(tokens.size()) - length);
  const i64 first = (beyond + half - 1) / half * half;
  return std::span(tokens).subspan(static_cast<std::size_t>(first));
}

std::span<const i32> TextSampler::new_in(std::size_t place, std::span<const i32> window) {
  std::vector<i32>& kept = kept_.at(place);
  const auto known = std::ranges::mismatch(kept, window.first(window.size() - 1)).in1;
  if (known != kept.end() || kept.empty()) {
    cache_->restart(static_cast<i64>(place));
    kept.clear();
  }
  return window.subspan(kept.size());
}

std::vector<std::vector<float>> TextSampler::logits(std::span<const std::vector<i32>> sequences) {
  std::vector<std::vector<float>> found;
  std::vector<std::span<const i32>> windows, added;
  for (const std::vector<i32>& tokens : sequences) {
    windows.push_back(window_of(tokens));
    if (cache_ != nullptr) {
      added.push_back(new_in(added.size(), windows.back()));
    } else {
      found.push_back(evaluation_.logits(windows.back()));
    }
  }
  if (cache_ == nullptr) return found;
  for (std::size_t first = 0; first < added.size();) {
    std::size_t end = first + 1;
    const auto is_one = [&](std::size_t place) { return added[place].size() == 1; };
    while (is_one(first) && end < added.size() && is_one(end)) ++end;
    std::vector<i32> tokens;
    for (std::size_t place = first; place < end; ++place) {
      tokens.insert(tokens.end(), added[place].begin(), added[place].end());
      kept_[place].clear();  // nothing is known of it where the run fails
    }
    const SequenceCache::Run run{.first = static_cast<i64>(first),
                                 .sequences = static_cast<i64>(end - first),
                                 .rows = static_cast<i64>(added[first].size())};
    std::ranges::move(evaluation_.logits(tokens, *cache_, run), std::back_inserter(found));
    for (std::size_t place = first; place < end; ++place) {
      kept_[place].assign(windows[place].begin(), windows[place].end());
    }
    first = end;
  }
  return found;
}

std::vector<float> TextSampler::logits(const std::vector<i32>& tokens) {
  return std::move(logits(std::span(&tokens, 1)).at(0));
}

void TextSampler::move(i64 from, i64 to) {
  if (cache_ != nullptr) evaluation_.move(*cache_, from, to);
  kept_.at(static_cast<std::size_t>(to)) =
      std::exchange(kept_.at(static_cast<std::size_t>(from)), {});
}

i32 TextSampler::next(const std::vector<i32>& tokens, const Sampling& sampling, i64 prompt) {
  return choose(logits(tokens), tokens, sampling, prompt);
}

i32 TextSampler::choose(std::vector<float> logits,
                        const std::vector<i32>& tokens,
                        const Sampling& sampling,
                        i64 prompt) const {
  const auto known = static_cast<std::size_t>(setup_.tokenizer->vocabulary());
  logits.resize(std::min(logits.size(), known));
  const auto position = static_cast<i64>(tokens.size());
  return choose_token(token_weights(logits, tokens, sampling),
                      sampling_number(sampling.seed, prompt, position));
}

std::string TextSampler::text(const std::string& prompt, i64 tokens, const Sampling& sampling) {
  for (std::vector<i32>& kept : kept_) kept.clear();  // the model may have been trained since
  std::vector<i32> ids = setup_.tokenizer->encode(prompt, SpecialTexts::parsed);
  for (i64 i = 0; i < tokens; ++i) ids.push_back(next(ids, sampling));
  return setup_.tokenizer->decode(ids);
}

}  // namespace tessera
