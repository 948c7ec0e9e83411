#include "isa.hpp"

#include <cstdlib>

#include "tessera/error.hpp"

namespace tessera::cpu {
namespace {

bool supports_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

bool supports_avx512() {
  return supports_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

}  // namespace

const Kernels& choose_kernels() {
  const char* wanted = std::getenv("TESSERA_CPU_ISA");
  if (wanted == nullptr || *wanted == '\0') {
    if (supports_avx512()) return avx512::kKernels;
    return supports_avx2() ? avx2::kKernels : baseline::kKernels;
  }
  const std::string_view name = wanted;
  if (name == "baseline") return baseline::kKernels;
  if (name == "avx2" && supports_avx2()) return avx2::kKernels;
  if (name == "avx512" && supports_avx512()) return avx512::kKernels;
  if (name == "avx2" || name == "avx512") {
    fail("TESSERA_CPU_ISA={}: this processor has no {}; unset it or name another", name, name);
  }
  fail("TESSERA_CPU_ISA={}: known are baseline, avx2 and avx512", name);
}

}  // namespace tessera::cpu
