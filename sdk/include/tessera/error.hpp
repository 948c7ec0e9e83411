#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/api.hpp"

namespace tessera {

/// The one exception type of the SDK. Its text says what, where and what to do, once; the
/// catcher prints it unchanged. May cross the plugin boundary (its typeinfo lives in
/// libtessera.so). `exit_code` is what the program returns when the error ends it: 1 for a run
/// that failed, 2 for usage or configuration.
class TESSERA_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text, int exit_code = 1);
  ~Error() override;
  int exit_code() const noexcept { return exit_code_; }

 private:
  int exit_code_;
};

/// Wrong usage or configuration: the same as Error with exit code 2.
class TESSERA_API ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& text);
  ~ConfigError() override;
};

/// What fail() and fail_config() do once the types of their values are forgotten: one copy of the
/// code instead of one at every call.
[[noreturn]] TESSERA_API void fail_formatted(fmt::string_view text, fmt::format_args values);
[[noreturn]] TESSERA_API void fail_config_formatted(fmt::string_view text, fmt::format_args values);

/// Throws Error with a formatted text: `fail("axis {} has size {}", name, n)`.
template <class... T>
[[noreturn]] void fail(fmt::format_string<T...> text, T&&... values) {
  fail_formatted(text, fmt::make_format_args(values...));
}

/// Throws ConfigError with a formatted text.
template <class... T>
[[noreturn]] void fail_config(fmt::format_string<T...> text, T&&... values) {
  fail_config_formatted(text, fmt::make_format_args(values...));
}

/// Throws Error unless `condition` holds. The text is formatted only on failure.
template <class... T>
void require(bool condition, fmt::format_string<T...> text, T&&... values) {
  if (!condition) [[unlikely]] {
    fail(text, std::forward<T>(values)...);
  }
}

}  // namespace tessera
