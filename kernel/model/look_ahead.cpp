#include "kernel/model/look_ahead.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/config/choice.hpp"
#include "tessera/log.hpp"

namespace tessera {

void LookAhead::add(const std::vector<Chunk>& chunks) {
  for (const Chunk& chunk : chunks) {
    for (const Phase& phase : chunk.phases()) {
      if (phase.looks_ahead.empty()) continue;
      meant_ |= phase.scope == "attn";
      std::string text = fmt::format("{}: {}", choice_of(phase.owner), phase.looks_ahead);
      if (std::ranges::find(found_, text) == found_.end()) found_.push_back(std::move(text));
    }
  }
}

void LookAhead::warn() const {
  if (meant_) return;
  for (const std::string& text : found_) {
    log_warning(
        "{}: the model is not causal, so its loss rests on tokens that it does not have when it "
        "generates text",
        text);
  }
}

}  // namespace tessera
