#pragma once
#include <string_view>

#include "tessera/base/api.hpp"

namespace tessera {

struct Identity;

/// What a thread is doing while one lives, for messages about a crash: a component that is called,
/// an operation that is launched. They nest as the calls do, cost a few nanoseconds, and keep views
/// only: `what` and `name` outlive them. One with an empty `what` is left out of messages.
///
///     const Doing doing("operation", kernel.operation);
class TESSERA_API Doing {
 public:
  /// `component`: whose call it is, if it is one's.
  Doing(std::string_view what, std::string_view name, const Identity* component = nullptr) noexcept;
  ~Doing();
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

  std::string_view what() const { return what_; }
  std::string_view name() const { return name_; }
  /// What this is a part of; nullptr: of nothing.
  const Doing* around() const { return around_; }

  /// The innermost component that this thread is in; nullptr: none.
  static const Identity* component() noexcept;
  /// Where this thread keeps its innermost Doing that lives (nullptr: none), so that a handler can
  /// also look at another thread, which has to live.
  static const Doing* const* innermost() noexcept;

 private:
  std::string_view what_, name_;
  const Identity* component_;  // or that of what is around it
  const Doing* around_;
};

}  // namespace tessera
