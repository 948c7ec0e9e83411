#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

/// A line of metrics.jsonl (observer "metrics").
class EarlierStep {
 public:
  EarlierStep(i64 step, std::string_view line) : step_(step), line_(line) {}
  i64 step() const { return step_; }
  /// Nothing where the key is absent or no finite number.
  std::optional<double> number(std::string_view key) const;
  /// All keys that have a finite number.
  void for_each_number(const std::function<void(std::string_view key, double value)>& take) const;

 private:
  i64 step_;
  std::string_view line_;
};

/// Calls `take` with the steps up to and with `last` of a metrics.jsonl; never where there is no
/// such file. Lines of another form are passed over.
void for_each_earlier_step(const std::string& path,
                           i64 last,
                           const std::function<void(const EarlierStep&)>& take);

/// Puts a file in place in one step: a reader sees the old one or the new one, whole. Throws Error.
void replace_file(const std::string& path, std::string_view text);

}  // namespace tessera
