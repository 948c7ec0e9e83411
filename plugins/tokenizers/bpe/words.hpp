#pragma once
#include <functional>
#include <memory>
#include <string_view>

namespace tessera {

/// Cuts a text into the pieces within which tokens may lie: GPT-2's words, with the space before
/// them, numbers, runs of other signs and of white space (Radford et al. 2019, §2.2; the pattern is
/// that of its published encoder). Thread-safe once it is made.
class Words {
 public:
  /// Throws ConfigError, for the tokenizer of this name, where this build has no PCRE2.
  explicit Words(std::string_view tokenizer);
  Words(Words&& other) noexcept;
  ~Words();

  /// Calls `take` with all of `text`, piece by piece. Bytes that are no UTF-8 are pieces too.
  void for_each(std::string_view text, const std::function<void(std::string_view)>& take) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
