#include "continuation.hpp"

#include "tessera/error.hpp"

namespace tessera {

ScoredText continued(std::vector<i32> context,
                     const std::vector<i32>& following,
                     const TextScorer& scorer,
                     const std::string& where) {
  const auto scored = static_cast<i64>(following.size());
  if (context.empty()) fail_config("{}: nothing is before what is scored", where);
  if (scored == 0) fail_config("{}: the tokenizer makes no token of what is scored", where);
  if (scored >= scorer.most_tokens()) {
    fail_config("{}: {} tokens are scored, and the model has {} positions",
                where,
                scored,
                scorer.most_tokens() - 1);
  }
  const i64 too_many = static_cast<i64>(context.size()) + scored - scorer.most_tokens();
  if (too_many > 0) context.erase(context.begin(), context.begin() + too_many);
  const auto first = static_cast<i64>(context.size());
  context.insert(context.end(), following.begin(), following.end());
  return {std::move(context), first};
}

}  // namespace tessera
