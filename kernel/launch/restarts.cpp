#include "kernel/launch/restarts.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "tessera/error.hpp"

namespace tessera {

namespace {

// Numbers are ranks, addresses, seconds, ports: they differ where the failure is the same.
std::string without_numbers(std::string_view text) {
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto is_hexadecimal = [](unsigned char c) { return std::isxdigit(c) != 0; };
  std::string kept;
  while (!text.empty()) {
    if (text.starts_with("0x")) {
      const auto end = std::find_if_not(text.begin() + 2, text.end(), is_hexadecimal);
      text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
      continue;
    }
    if (!is_digit(static_cast<unsigned char>(text.front()))) kept += text.front();
    text.remove_prefix(1);
  }
  return kept;
}

}  // namespace

std::string step_text(i64 step) {
  return step == 0 ? "before the first step" : fmt::format("in step {}", step);
}

Restarts::Decision Restarts::decide(const AttemptFailure& failure) {
  if (limit_ == 0) return {};
  if (!seen_.emplace(failure.step, without_numbers(failure.cause)).second) {
    return {false,
            fmt::format("not started again: the same failure came before, {}",
                        step_text(failure.step))};
  }
  if (made_ == limit_) {
    return {false, fmt::format("not started again: {} of {} restarts are used", made_, limit_)};
  }
  ++made_;
  return {true};
}

}  // namespace tessera
