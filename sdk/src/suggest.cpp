#include "tessera/io/suggest.hpp"

#include <algorithm>

namespace tessera {

int edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<int> cell((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> int& { return cell[i * width + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  int least = 3;
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    // Two edits turn any word of two letters into any other, and "rope" into "type": a short word
    // keeps its first letter.
    const auto letters = static_cast<int>(std::max(word.size(), candidate.size()));
    const bool other = letters <= 4 && distance == 2 && word.substr(0, 1) != candidate.substr(0, 1);
    if (distance < least && 2 * distance <= letters && !other) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace tessera
