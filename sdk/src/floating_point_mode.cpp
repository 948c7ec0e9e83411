#include "tessera/floating_point_mode.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tessera {

#if defined(__x86_64__)
namespace {
constexpr u32 kOccurred = 0x3f;          // MXCSR: exceptions that occurred
constexpr u32 kFlushDenormals = 0x8040;  // MXCSR: results (FTZ) and operands (DAZ)
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
  return after.flushes_denormals() && !before.flushes_denormals()
             ? "switched denormal numbers off"
             : "changed how floating-point numbers are computed";
}

}  // namespace tessera
