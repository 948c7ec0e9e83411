#include "kernel/train/run/text_batch.hpp"

namespace tessera {

void grow_together(TextSampler& sampler,
                   i64 places,
                   std::vector<GrowingText>& texts,
                   const Sampling& sampling,
                   const TextEvents& events) {
  std::vector<std::size_t> growing;  // by place
  std::size_t next = 0;
  while (true) {
    while (static_cast<i64>(growing.size()) < places && next < texts.size()) {
      growing.push_back(next++);
    }
    if (growing.empty()) return;
    std::vector<std::vector<i32>> sequences;
    for (const std::size_t text : growing) sequences.push_back(texts[text].tokens());
    const std::vector<std::vector<float>> logits = sampler.logits(sequences);
    for (std::size_t place = 0; place < growing.size(); ++place) {
      const std::size_t text = growing[place];
      texts[text].add(
          sampler.choose(logits[place], sequences[place], sampling, static_cast<i64>(text)));
      (texts[text].over() ? events.over : events.grown)(text);
    }
    // The last place moves to where a text is over.
    for (std::size_t place = growing.size(); place-- > 0;) {
      if (!texts[growing[place]].over()) continue;
      const std::size_t last = growing.size() - 1;
      if (place < last) sampler.move(static_cast<i64>(last), static_cast<i64>(place));
      growing[place] = growing[last];
      growing.pop_back();
    }
  }
}

}  // namespace tessera
