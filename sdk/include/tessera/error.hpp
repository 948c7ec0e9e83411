#pragma once
#include <fmt/core.h>

#include <cerrno>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// What an error is, for code that has to decide what follows. No code reads that from a text.
enum class ErrorKind : u8 {
  own,            ///< something went wrong on this rank
  configuration,  ///< wrong usage or configuration: the program ends with 2, else with 1
  /// Another rank failed or ended, and this rank was told.
  peer_failed,
  /// This rank waited for another one in vain. Nobody knows yet who is to blame: the rank that it
  /// waited for may have been waiting too.
  peer_silent,
  interrupted,  ///< a signal asked the run to end
};

/// Is another rank to blame? Then reports of failures look for it.
constexpr bool blames_peer(ErrorKind kind) {
  return kind == ErrorKind::peer_failed || kind == ErrorKind::peer_silent;
}

/// What was used up, where an error says so.
enum class Resource : u8 { none, memory, open_files, file_size, threads };
/// The resource that an errno names.
TESSERA_API Resource resource_of(int system_error) noexcept;

/// What the system says of an errno, as a value of fail() and its like: `fail("cannot read {}: {}",
/// path, SystemError())`. The Error keeps the resource.
class SystemError {
 public:
  SystemError() = default;  ///< of errno as it is when the error is thrown
  explicit SystemError(int code) : code_(code) {}
  explicit SystemError(const std::error_code& error) : code_(error.value()) {}
  int code() const noexcept { return code_.value_or(errno); }

 private:
  std::optional<int> code_;
};

}  // namespace tessera

template <>
struct fmt::formatter<tessera::SystemError> : formatter<string_view> {
  TESSERA_API appender format(const tessera::SystemError& error, format_context& to) const;
};

namespace tessera {

/// What one layer of the program knew of an error that passed through it.
struct ErrorFrame {
  enum class Kind : u8 {
    note,        ///< "saving step 3 failed"
    culprit,     ///< who is to blame, as found out later: "rank 3 did not start"
    told,        ///< the same where the text says it already; not shown
    key,         ///< of the configuration, that is wrong: "checkpoint.init_skip"
    advice,      ///< what may be wrong, and what to do
    operation,   ///< a kernel or host task: "operation \"add\""
    collective,  ///< "rank 1, group tp[0,1]: all_reduce \"mlp.down\""
    place,       ///< in the configuration: "run.toml:12:3: [lr] type = \"cosine\""
    kernel,      ///< "a kernel of libtessera_moe.so 0.3, operation \"add\""
    choice,      ///< `run.toml:9:1: [model.block.mlp] type = "moe"`: whose error it is, for whoever
                 ///< adds a place; not shown
    component,   ///< "layer/moe of plugin moe 0.3 (libtessera_moe.so), configured at run.toml:9:1"
  };
  Kind kind = Kind::note;
  std::string text;
};

/// The one exception type of the SDK: a text, its kind, the rank that it is about, and frames. Its
/// text says what went wrong and what to do, once. A layer that knows more adds a frame and lets it
/// go on (rethrow_with). May cross the plugin boundary: its typeinfo lives in libtessera.so. A copy
/// shares nothing that changes. A class derived from it arrives as Error or ConfigError where the
/// host has added who is to blame.
class TESSERA_API Error : public std::exception {
 public:
  static constexpr i64 kNoRank = -1;

  explicit Error(std::string_view text, ErrorKind kind = ErrorKind::own, i64 rank = kNoRank);
  ~Error() override;
  /// All of it as people read it: frames that lead to the text, the outermost first, the text, then
  /// the kernel and the component that it came from.
  const char* what() const noexcept override;
  ErrorKind kind() const noexcept;
  /// The rank on which it happened, or that failed; kNoRank where nobody said so.
  i64 rank() const noexcept;
  const std::string& text() const noexcept;                ///< without frames
  const std::vector<ErrorFrame>& frames() const noexcept;  ///< the innermost first
  bool has(ErrorFrame::Kind kind) const noexcept { return frame(kind) != nullptr; }
  /// The innermost frame of this kind; nullptr where there is none.
  const ErrorFrame* frame(ErrorFrame::Kind kind) const noexcept;
  Resource resource() const noexcept;
  Error& add(ErrorFrame::Kind kind, std::string_view text);
  Error& add(Resource resource);
  /// The error as others are told of it: it happened on this rank, unless a rank is known.
  Error of_rank(i64 rank) const;
  /// What the program returns when this ends it.
  int exit_code() const noexcept { return kind() == ErrorKind::configuration ? 2 : 1; }
  /// Throws it: a ConfigError where it is of that kind.
  [[noreturn]] void raise() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// An Error of kind `configuration`.
class TESSERA_API ConfigError : public Error {
 public:
  explicit ConfigError(std::string_view text);
  ~ConfigError() override;

 private:
  friend class Error;  // raise()
  explicit ConfigError(const Error& error) : Error(error) {}
};

/// Call in a catch block: what was caught, as an Error; one with its text where it was none.
TESSERA_API Error error_in_flight();

/// Call in a catch block: throws on what was caught, as an Error with one more frame. The frame is
/// added to the exception itself: one that is kept to be thrown again has it then.
[[noreturn]] TESSERA_API void rethrow_with(ErrorFrame::Kind kind, std::string_view text);

/// What fail() and fail_config() do once the types of their values are forgotten: one copy of the
/// code instead of one at every call. `system`: the code of a SystemError among them, or 0.
[[noreturn]] TESSERA_API void fail_formatted(fmt::string_view text,
                                             fmt::format_args values,
                                             int system);
[[noreturn]] TESSERA_API void fail_config_formatted(fmt::string_view text,
                                                    fmt::format_args values,
                                                    int system);

namespace detail {
template <class T>
int system_code_of(const T&) {
  return 0;
}
inline int system_code_of(const SystemError& error) { return error.code(); }

template <class... T>
int system_code(const T&... values) {
  return (0 | ... | system_code_of(values));  // at most one of them has any
}
}  // namespace detail

/// Throws Error with a formatted text: `fail("axis {} has size {}", name, n)`.
template <class... T>
[[noreturn]] void fail(fmt::format_string<T...> text, T&&... values) {
  fail_formatted(text, fmt::make_format_args(values...), detail::system_code(values...));
}

/// Throws ConfigError with a formatted text.
template <class... T>
[[noreturn]] void fail_config(fmt::format_string<T...> text, T&&... values) {
  fail_config_formatted(text, fmt::make_format_args(values...), detail::system_code(values...));
}

/// Throws Error unless `condition` holds. The text is formatted only on failure.
template <class... T>
void require(bool condition, fmt::format_string<T...> text, T&&... values) {
  if (!condition) [[unlikely]] {
    fail(text, std::forward<T>(values)...);
  }
}

}  // namespace tessera
