#include "windows.hpp"

#include <algorithm>

#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr std::size_t kMostWaiting = 4096;

}  // namespace

Windows::Windows(const WindowKeys& keys, i64 most_tokens)
    : window(keys.window.value_or(most_tokens - 1)), stride(keys.stride.value_or(window)) {
  if (window >= most_tokens) {
    fail_config("window = {}: the model has {} positions", window, most_tokens - 1);
  }
  if (stride > window) {
    fail_config(
        "stride = {} with window = {} leaves out tokens: at most the window", stride, window);
  }
}

// The first window begins with the text and scores all its targets. Each that follows begins
// `stride` later and scores those beyond the one before.
void WindowSum::add(const std::vector<i32>& tokens) {
  const auto targets = static_cast<i64>(tokens.size()) - 1;
  i64 scored = 0;
  for (i64 begin = 0; scored < targets; begin += of_.stride) {
    const i64 end = std::min(begin + of_.window, targets);
    waiting_.push_back({{tokens.begin() + begin, tokens.begin() + end + 1}, scored + 1 - begin});
    tokens_ += end - scored;
    ++windows_;
    scored = end;
    if (waiting_.size() == kMostWaiting) score();
  }
}

void WindowSum::score() {
  for (const std::vector<TokenScore>& scores : scorer_.score(waiting_)) {
    for (const TokenScore& score : scores) nats_ -= score.log_probability;
  }
  waiting_.clear();
}

double WindowSum::nats() {
  score();
  return nats_;
}

}  // namespace tessera
