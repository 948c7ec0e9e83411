#include "squad_spans.hpp"

#include <algorithm>

namespace tessera {

namespace {

// Where the answer's text begins; npos: it is not there.
std::size_t begin_of(const SquadAnswer& answer, std::string_view context) {
  if (context.substr(answer.begin).starts_with(answer.text)) return answer.begin;
  const std::size_t space = context.find_last_of(kSpaces, answer.begin);
  const std::size_t begin = space == context.npos ? 0 : space + 1;
  const std::size_t until = std::min(answer.begin + answer.text.size(), context.size());
  const std::size_t end = std::min(context.find_first_of(kSpaces, until), context.size());
  const std::size_t found = context.substr(begin, end - begin).find(answer.text);
  return found == context.npos ? found : begin + found;
}

}  // namespace

std::vector<ContextWindow> windows_of(i64 tokens, i64 room, i64 stride) {
  std::vector<ContextWindow> windows;
  for (i64 begin = 0; begin < tokens;) {
    const i64 end = std::min(begin + room, tokens);
    windows.push_back({begin, end});
    if (end == tokens) break;
    begin = std::min(end, begin + stride);
  }
  return windows;
}

std::size_t widest_around(i64 token, std::span<const ContextWindow> windows) {
  std::size_t best = 0;
  double most = -1;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const auto [begin, end] = windows[i];
    if (!windows[i].has(token)) continue;
    const double score = static_cast<double>(std::min(token - begin, end - 1 - token)) +
                         0.01 * static_cast<double>(end - begin);
    if (score > most) {
      most = score;
      best = i;
    }
  }
  return best;
}

std::optional<TokenSpan> tokens_of(const SquadAnswer& answer,
                                   std::string_view context,
                                   const PlacedTokens& tokens) {
  const std::size_t begin = begin_of(answer, context);
  if (begin == context.npos) return {};
  const std::size_t end = begin + answer.text.size();
  const auto first = std::ranges::upper_bound(tokens.end, begin) - tokens.end.begin();
  const auto last = std::ranges::lower_bound(tokens.begin, end) - tokens.begin.begin() - 1;
  if (last < first) return {};
  return TokenSpan{first, last};
}

}  // namespace tessera
