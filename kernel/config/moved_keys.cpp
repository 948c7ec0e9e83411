#include "kernel/config/moved_keys.hpp"

#include <fmt/format.h>

namespace tessera {

namespace {

struct Move {
  std::string_view from, to;  // a key, or a table with all that is in it
};
constexpr Move kMoves[] = {
    {"model.sequence_length", "batch.sequence_length"},
    {"model.embedding.sequence_length", "model.embedding.positions"},
    {"data.tokenizer", "tokenizer"},
};

}  // namespace

std::optional<std::string> moved_key(std::string_view path) {
  for (const Move& move : kMoves) {
    if (path == move.from) return std::string(move.to);
    if (path.starts_with(move.from) && path[move.from.size()] == '.') {
      return fmt::format("{}{}", move.to, path.substr(move.from.size()));
    }
  }
  return std::nullopt;
}

}  // namespace tessera
