#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// "rank 1", "ranks 1, 2, 3"; of many the first ones and how many more.
inline std::string rank_list(const std::vector<i64>& ranks) {
  constexpr std::size_t kShown = 16;
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < ranks.size() && i < kShown; ++i) {
    text += fmt::format("{} {}", i == 0 ? "" : ",", ranks[i]);
  }
  if (ranks.size() > kShown) text += fmt::format(" and {} more", ranks.size() - kShown);
  return text;
}

}  // namespace tessera
