#pragma once
#include <string_view>
#include <utility>

#include "sdk/src/shared/floating_point_guard.hpp"
#include "tessera/base/api.hpp"
#include "tessera/base/identified.hpp"
#include "tessera/device/doing.hpp"

namespace tessera {

/// Surrounds a call into a component. `of` may be nullptr: then nobody is named.
class TESSERA_API ComponentCall {
 public:
  ComponentCall(const Identity* of, std::string_view what) noexcept;

  /// Call in a catch block: throws on what was caught, with the component named unless one further
  /// in is named already, another rank is to blame, or the component is the kernel's own.
  [[noreturn]] void rethrow() const;

 private:
  const Identity* of_;
  std::string_view what_;
  Doing doing_;
  FloatingPointGuard guard_;
};

/// Calls `f` as part of the component; `what` names the call.
template <class F>
decltype(auto) call_component(const Identity* of, std::string_view what, F&& f) {
  const ComponentCall now(of, what);
  try {
    return std::forward<F>(f)();
  } catch (...) {
    now.rethrow();
  }
}
template <class F>
decltype(auto) call_component(const Identified& component, std::string_view what, F&& f) {
  return call_component(component.identity(), what, std::forward<F>(f));
}

}  // namespace tessera
