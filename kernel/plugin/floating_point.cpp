#include "kernel/plugin/floating_point.hpp"

#include <utility>

#include "tessera/log.hpp"
#include "tessera/types.hpp"

namespace tessera {
namespace {

#if defined(__x86_64__)
constexpr u32 kFlushDenormals = 0x8040;  // MXCSR: results (FTZ) and operands (DAZ)
constexpr u32 kRaised = 0x3f;            // MXCSR: exceptions that occurred

// What decides results: MXCSR, and the x87 control word.
std::pair<u32, u32> control_of(const std::fenv_t& environment) {
  return {environment.__mxcsr & ~kRaised, environment.__control_word};
}
bool flushes(const std::fenv_t& environment) {
  return (environment.__mxcsr & kFlushDenormals) != 0;
}
#elif defined(__aarch64__)
u32 control_of(const std::fenv_t& environment) { return environment.__fpcr; }
bool flushes(const std::fenv_t& environment) { return (environment.__fpcr & (1U << 24)) != 0; }
#else
#error "say here what this machine's floating-point control is"
#endif

}  // namespace

FloatingPointGuard::FloatingPointGuard(std::filesystem::path library)
    : library_(std::move(library)) {
  std::fegetenv(&before_);
}

FloatingPointGuard::~FloatingPointGuard() {
  std::fenv_t after;
  std::fegetenv(&after);
  if (control_of(after) == control_of(before_)) return;
  std::fesetenv(&before_);
  log_warning(
      "{}: {} while it was loaded, for the whole process; that was undone. Link it, and what it "
      "needs, without -ffast-math",
      library_.string(),
      flushes(after) && !flushes(before_) ? "switched denormal numbers off"
                                          : "changed how floating-point numbers are computed");
}

}  // namespace tessera
