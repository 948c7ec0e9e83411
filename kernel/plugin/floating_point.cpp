#include "kernel/plugin/floating_point.hpp"

#include <utility>

#include "tessera/log.hpp"

namespace tessera {

FloatingPointGuard::FloatingPointGuard(std::filesystem::path library)
    : library_(std::move(library)), before_(floating_point_mode()) {}

FloatingPointGuard::~FloatingPointGuard() {
  const FloatingPointMode after = floating_point_mode();
  if (after == before_) return;
  set_floating_point_mode(before_);
  log_warning(
      "{}: {} while it was loaded, for the whole process; that was undone. Link it, and what it "
      "needs, without -ffast-math",
      library_.string(),
      floating_point_change(before_, after));
}

}  // namespace tessera
