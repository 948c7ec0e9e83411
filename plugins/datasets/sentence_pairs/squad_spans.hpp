#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "placed_tokens.hpp"
#include "squad_file.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// First and last token.
struct TokenSpan {
  i64 first = 0, last = 0;
  bool operator==(const TokenSpan&) const = default;
};

/// Tokens [begin, end) of a context.
struct ContextWindow {
  i64 begin = 0, end = 0;
  bool has(i64 token) const { return begin <= token && token < end; }
};

/// The windows of a context of so many tokens, as BERT's run_squad has them: each has `room`
/// tokens, or those that are left, and begins `stride` after the one before, or where that ends.
std::vector<ContextWindow> windows_of(i64 tokens, i64 room, i64 stride);

/// Which window has the most of what is around a token: the one where the smaller of the numbers of
/// tokens before and after it, and a hundredth of the window's tokens, add up to the most; of equal
/// ones the first.
std::size_t widest_around(i64 token, std::span<const ContextWindow> windows);

/// The tokens that have bytes of an answer. It is the answer's text where the file says that it
/// is, or else within the words which that many characters from there on are of. None: it is not
/// there, or has no token.
std::optional<TokenSpan> tokens_of(const SquadAnswer& answer,
                                   std::string_view context,
                                   const PlacedTokens& tokens);

}  // namespace tessera
