#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tessera {

/// What tokenizer.json looks for in a text.
struct PatternText {
  std::string text;
  bool regex = false;  ///< of Oniguruma's Ruby syntax; else it is found as it stands
  std::string place;   ///< for errors: "tokenizer.path: t.json: normalizer.pattern.Regex"
};

/// The same in PCRE2's syntax. Throws ConfigError naming the place where the two differ, or where
/// it is not known that they agree.
std::string pcre2_pattern(const PatternText& pattern);

/// Finds a pattern in texts, from the left; matches do not overlap. Thread-safe once it is made.
class Pattern {
 public:
  /// Throws ConfigError where PCRE2 refuses the pattern, or where this build has no PCRE2.
  explicit Pattern(const PatternText& pattern);
  Pattern(Pattern&& other) noexcept;
  ~Pattern();

  using Take = std::function<void(std::string_view part, bool matches)>;
  /// Calls `take` with all of `text`, which is UTF-8: matches, which may be empty, and what lies
  /// between them.
  void for_each(std::string_view text, const Take& take) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
