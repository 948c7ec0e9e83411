#include "placed_tokens.hpp"

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/io/utf8.hpp"

namespace tessera {

namespace {

void append(std::vector<i32>& to, const std::vector<i32>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

TokenPlacer::TokenPlacer(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), encoder_(tokenizer.encoder()) {}

std::vector<i32> TokenPlacer::encoded(std::string_view text) {
  std::vector<i32> ids;
  encoder_->append(text, ids);
  return ids;
}

PlacedTokens TokenPlacer::place(std::string_view text, const std::string& where) {
  PlacedTokens all;
  for (std::size_t at = text.find_first_not_of(kSpaces); at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
    const PlacedTokens& own = word(text.substr(at, end - at));
    append(all.ids, own.ids);
    for (std::size_t i = 0; i < own.ids.size(); ++i) {
      all.begin.push_back(static_cast<u32>(at) + own.begin[i]);
      all.end.push_back(static_cast<u32>(at) + own.end[i]);
    }
    at = text.find_first_not_of(kSpaces, end);
  }
  if (all.ids != encoded(text)) {
    fail_config(
        "{}: the tokens of the text are not those of its words; a tokenizer is wanted that "
        "cuts texts at white space, as wordpiece does ({})",
        where,
        tokenizer_.fingerprint());
  }
  return all;
}

const PlacedTokens& TokenPlacer::word(std::string_view text) {
  const auto [at, is_new] = words_.try_emplace(std::string(text));
  if (is_new) at->second = place_word(text);
  return at->second;
}

PlacedTokens TokenPlacer::place_word(std::string_view text) {
  const std::vector<i32> ids = encoded(text);
  PlacedTokens made;
  if (ids.size() > 1) {
    const std::vector<std::size_t> ends = cuts(text);
    for (std::size_t i = 0, begin = 0; i < ends.size(); begin = ends[i++]) {
      place_piece(text.substr(begin, ends[i] - begin), static_cast<u32>(begin), made);
    }
  }
  if (made.ids != ids) {
    made.ids = ids;
    made.begin.assign(ids.size(), 0);
    made.end.assign(ids.size(), static_cast<u32>(text.size()));
  }
  return made;
}

// Where the pieces of a word end. A character that no token is made of, as an accent or a control
// character, stays with the one before it.
std::vector<std::size_t> TokenPlacer::cuts(std::string_view word) {
  std::vector<std::size_t> ends;
  std::size_t before = word.npos, before_end = 0;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t size = next_character(word.substr(at)).size();
    const std::string_view character = word.substr(at, size);
    if (!encoded(character).empty()) {
      if (before != word.npos && apart(word.substr(before, before_end - before),
                                       word.substr(before_end, at - before_end),
                                       character)) {
        ends.push_back(at);
      }
      before = at;
      before_end = at + size;
    }
    at += size;
  }
  ends.push_back(word.size());
  return ends;
}

// Are two characters tokens of their own where they meet?
bool TokenPlacer::apart(std::string_view before, std::string_view between, std::string_view after) {
  const std::string all = std::string(before).append(between).append(after);
  const auto [at, is_new] = apart_.try_emplace(all);
  if (is_new) {
    std::vector<i32> both = encoded(before);
    append(both, encoded(after));
    at->second = both == encoded(all);
  }
  return at->second;
}

void TokenPlacer::place_piece(std::string_view piece, u32 begin, PlacedTokens& out) {
  const std::vector<i32> ids = encoded(piece);
  // Bytes at which its characters begin, without those that no token is made of, and its end.
  std::vector<u32> starts;
  for (std::size_t at = 0; at < piece.size();) {
    const std::string_view character = next_character(piece.substr(at));
    if (!encoded(character).empty()) starts.push_back(static_cast<u32>(at));
    at += character.size();
  }
  starts.push_back(static_cast<u32>(piece.size()));
  std::vector<std::size_t> ends;  // of each token, in characters
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const std::string text = tokenizer_.decode({ids.begin(), ids.begin() + static_cast<i64>(i)});
    ends.push_back(static_cast<std::size_t>(characters_of(text)));
  }
  if (!ids.empty()) {
    ends.push_back(static_cast<std::size_t>(characters_of(tokenizer_.decode(ids))));
  }
  const bool as_many =
      !ends.empty() && ends.back() + 1 == starts.size() && std::ranges::is_sorted(ends);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    out.ids.push_back(ids[i]);
    const bool whole = !as_many || ids.size() == 1;
    out.begin.push_back(begin + (whole || i == 0 ? 0 : starts[ends[i - 1]]));
    out.end.push_back(begin + (whole ? starts.back() : starts[ends[i]]));
  }
}

}  // namespace tessera
