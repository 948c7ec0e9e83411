#pragma once
#include <functional>
#include <vector>

#include "kernel/train/run/growing_text.hpp"
#include "kernel/train/run/text_sampler.hpp"

namespace tessera {

/// What is told of texts while they grow, by their numbers.
struct TextEvents {
  std::function<void(std::size_t)> grown = [](std::size_t) {};
  std::function<void(std::size_t)> over = [](std::size_t) {};
};

/// Continues all texts until each is over, up to `places` at once: prompts run alone, then texts
/// grow together by a token each, and one that is over makes room for the next. What is drawn
/// depends on the seed, a text's number and its tokens alone, not on the others (sampling_number).
void grow_together(TextSampler& sampler,
                   i64 places,
                   std::vector<GrowingText>& texts,
                   const Sampling& sampling,
                   const TextEvents& events);

}  // namespace tessera
