#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pattern.hpp"
#include "tokenizer_file.hpp"

namespace tessera {

/// Changes a text before it is cut: normal forms, small letters, replaced and prepended texts.
/// Thread-safe once it is made.
class Normalizer {
 public:
  explicit Normalizer(const std::vector<NormalizerStep>& steps);
  bool changes_nothing() const { return steps_.empty(); }
  /// `text` is UTF-8. Throws Error where it grows beyond all measure: steps that replace may double
  /// it each.
  std::string operator()(std::string_view text) const;

 private:
  std::vector<std::pair<NormalizerStep, std::optional<Pattern>>> steps_;
};

/// `text` with `by` in the place of each match.
std::string replaced(std::string_view text, const Pattern& pattern, const std::string& by);

}  // namespace tessera
