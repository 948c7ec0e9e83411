#include "sdk/src/shared/floating_point_guard.hpp"

#include "tessera/log.hpp"

namespace tessera {

void FloatingPointGuard::undo() const noexcept {
  const FloatingPointMode after = floating_point_mode();
  set_floating_point_mode(before_);
  if (told_ != nullptr && told_->exchange(true)) return;
  try {
    const std::string change = floating_point_change(before_, after);
    if (during_ == During::load) {
      log_warning(
          "{}: {} while it was loaded, for the whole process; that was undone. Link it, and what "
          "it needs, without -ffast-math",
          who_,
          change);
      return;
    }
    log_warning(
        "{}{}{}{}: {} and left it so; that was undone after the call. Results within the call are "
        "in doubt: let it put back what it changes (fesetround, _mm_setcsr)",
        who_,
        what_.empty() ? "" : " (",
        what_,
        what_.empty() ? "" : ")",
        change);
  } catch (...) {  // no memory for the text: what matters is done
  }
}

}  // namespace tessera
