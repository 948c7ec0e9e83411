#include "tessera/device/floating_point_mode.hpp"

#include <fmt/format.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tessera {

#if defined(__x86_64__)
namespace {
constexpr u32 kOccurred = 0x3f;          // MXCSR: exceptions that occurred
constexpr u32 kFlushDenormals = 0x8040;  // MXCSR: results (FTZ) and operands (DAZ)
constexpr u32 kVectorRounding = 0x6000, kX87Rounding = 0x0c00;
}  // namespace

bool FloatingPointMode::flushes_denormals() const { return (vectors & kFlushDenormals) != 0; }

// System V ABI for x86-64, "Registers and the stack frame".
FloatingPointMode standard_floating_point() { return {.vectors = 0x1f80, .x87 = 0x37f}; }

FloatingPointMode floating_point_mode() {
  unsigned short x87 = 0;
  asm volatile("fnstcw %0" : "=m"(x87));
  return {.vectors = _mm_getcsr() & ~kOccurred, .x87 = x87};
}

void set_floating_point_mode(const FloatingPointMode& mode) {
  const auto x87 = static_cast<unsigned short>(mode.x87);
  asm volatile("fldcw %0" : : "m"(x87));
  _mm_setcsr(mode.vectors | (_mm_getcsr() & kOccurred));
}
#elif defined(__aarch64__)
namespace {
constexpr u32 kVectorRounding = 3U << 22, kX87Rounding = 0;  // FPCR: RMode
}  // namespace

bool FloatingPointMode::flushes_denormals() const { return (vectors & (1U << 24)) != 0; }

FloatingPointMode standard_floating_point() { return {}; }

FloatingPointMode floating_point_mode() {
  u64 fpcr = 0;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  return {.vectors = static_cast<u32>(fpcr)};
}

void set_floating_point_mode(const FloatingPointMode& mode) {
  asm volatile("msr fpcr, %0" : : "r"(static_cast<u64>(mode.vectors)));
}
#else
#error "say here what this machine's floating-point control is"
#endif

std::string floating_point_change(const FloatingPointMode& before, const FloatingPointMode& after) {
  if (after.flushes_denormals() && !before.flushes_denormals()) {
    return "switched denormal numbers off";
  }
  const bool rounding = ((after.vectors ^ before.vectors) & kVectorRounding) != 0 ||
                        ((after.x87 ^ before.x87) & kX87Rounding) != 0;
  return fmt::format("changed how floating-point numbers are {}",
                     rounding ? "rounded" : "computed");
}

}  // namespace tessera
