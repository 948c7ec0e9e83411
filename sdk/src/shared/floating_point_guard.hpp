#pragma once
#include <atomic>
#include <string_view>

#include "tessera/device/floating_point_mode.hpp"

namespace tessera {

/// Keeps how this thread computes while code of a plugin runs. A library that was linked with
/// -ffast-math switches denormal numbers off when it is loaded; a component may change the rounding
/// in a call and forget to put it back. Either would change the results of everything that runs
/// later. The destructor puts everything back, with a warning that names who changed it.
class TESSERA_API FloatingPointGuard {
 public:
  enum class During { load, call };
  /// `who`: a library, a component or an operation; `what`: its call, may be empty. Both outlive
  /// it. `told`: whether a warning has named `who`, so that one does; nullptr: each does.
  FloatingPointGuard(During during,
                     std::string_view who,
                     std::string_view what,
                     std::atomic<bool>* told = nullptr) noexcept
      : during_(during), who_(who), what_(what), told_(told), before_(floating_point_mode()) {}
  ~FloatingPointGuard() {
    if (floating_point_mode() != before_) undo();
  }
  FloatingPointGuard(const FloatingPointGuard&) = delete;
  FloatingPointGuard& operator=(const FloatingPointGuard&) = delete;

 private:
  void undo() const noexcept;
  During during_;
  std::string_view who_, what_;
  std::atomic<bool>* told_;
  FloatingPointMode before_;
};

}  // namespace tessera
