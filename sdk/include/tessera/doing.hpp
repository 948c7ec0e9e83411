#pragma once
#include <string_view>

#include "tessera/api.hpp"

namespace tessera {

/// What a thread is doing while one lives, for messages about a crash: a component that is called,
/// an operation that is launched. They nest as the calls do, cost a few nanoseconds, and keep views
/// only: `what` and `name` outlive them. One with an empty `what` is left out of messages.
///
///     const Doing doing("operation", kernel.operation);
class TESSERA_API Doing {
 public:
  Doing(std::string_view what, std::string_view name) noexcept;
  ~Doing();
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

  std::string_view what() const { return what_; }
  std::string_view name() const { return name_; }
  /// What this is a part of; nullptr: of nothing.
  const Doing* around() const { return around_; }

  /// The last of this thread that lives; nullptr: none. Where it is kept, so that a handler can
  /// also look at another thread, which has to live.
  static const Doing* const* innermost() noexcept;

 private:
  std::string_view what_, name_;
  const Doing* around_;
};

}  // namespace tessera
