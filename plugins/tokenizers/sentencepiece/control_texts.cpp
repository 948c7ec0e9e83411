#include "control_texts.hpp"

#include <algorithm>

namespace tessera {

ControlTexts::ControlTexts(const std::vector<ModelPiece>& pieces) {
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const auto& [text, type] = pieces[id];
    if (type == ModelPiece::Type::control) {
      by_first_[text[0]].emplace_back(text, static_cast<i32>(id));
    }
  }
  for (auto& [first, texts] : by_first_) {
    std::ranges::stable_sort(
        texts, std::greater<>(), [](const auto& one) { return one.first.size(); });
  }
}

void ControlTexts::for_each(std::string_view text, const Take& take) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto begun = by_first_.find(text[at]);
    const std::string_view rest = text.substr(at);
    const std::pair<std::string, i32>* found = nullptr;
    if (begun != by_first_.end()) {
      const auto one = std::ranges::find_if(
          begun->second, [&](const auto& symbol) { return rest.starts_with(symbol.first); });
      if (one != begun->second.end()) found = &*one;
    }
    if (found == nullptr) {
      ++at;
      continue;
    }
    if (at > done) take(text.substr(done, at - done), -1);
    take(rest.substr(0, found->first.size()), found->second);
    done = at += found->first.size();
  }
  if (done < text.size()) take(text.substr(done), -1);
}

}  // namespace tessera
