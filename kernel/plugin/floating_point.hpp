#pragma once
#include <filesystem>

#include "tessera/floating_point_mode.hpp"

namespace tessera {

/// Keeps how this thread computes while a library is loaded: rounding, denormal numbers, precision,
/// exceptions. A library that was linked with -ffast-math switches denormal numbers off in its
/// constructor, and threads that start later would inherit that. The destructor puts everything
/// back, with a warning that names the library.
class FloatingPointGuard {
 public:
  explicit FloatingPointGuard(std::filesystem::path library);
  ~FloatingPointGuard();
  FloatingPointGuard(const FloatingPointGuard&) = delete;
  FloatingPointGuard& operator=(const FloatingPointGuard&) = delete;

 private:
  std::filesystem::path library_;
  FloatingPointMode before_;
};

}  // namespace tessera
