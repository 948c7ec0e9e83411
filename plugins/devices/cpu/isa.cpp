#include "isa.hpp"

#include <cstdlib>

#include "tessera/error.hpp"

namespace tessera::cpu {
namespace {

bool supports_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool supports_avx512() {
  return supports_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

bool supports_avx512_bf16() { return supports_avx512() && __builtin_cpu_supports("avx512bf16"); }

struct InstructionSet {
  std::string_view name;
  const Kernels& kernels;
  bool here;
};

}  // namespace

const Kernels& choose_kernels() {
  const InstructionSet sets[] = {{"avx512_bf16", avx512_bf16::kKernels, supports_avx512_bf16()},
                                 {"avx512", avx512::kKernels, supports_avx512()},
                                 {"avx2", avx2::kKernels, supports_avx2()},
                                 {"baseline", baseline::kKernels, true}};
  const char* wanted = std::getenv("TESSERA_CPU_ISA");
  const bool any = wanted == nullptr || *wanted == '\0';
  for (const InstructionSet& set : sets) {
    if (any ? !set.here : set.name != wanted) continue;
    require(set.here,
            "TESSERA_CPU_ISA={}: this processor has no {}; unset it or name another",
            set.name,
            set.name);
    return set.kernels;
  }
  fail("TESSERA_CPU_ISA={}: known are baseline, avx2, avx512 and avx512_bf16", wanted);
}

}  // namespace tessera::cpu
