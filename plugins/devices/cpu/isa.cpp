#include "isa.hpp"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera::cpu {
namespace {

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool has_avx512_bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }

/// Whether the processor multiplies tiles of bf16 and the system saves their registers (Intel SDM,
/// volume 1, chapters 13 and 18).
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBits = bit_AMX_BF16 | bit_AMX_TILE;
  if (!has_avx512_bf16() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBits) != kBits) {
    return false;
  }
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTiles = 3U << 17;  // their configuration and their data
  return (low & kTiles) == kTiles;
}

/// Linux gives a process tile registers when it asks (Documentation/arch/x86/xstate.rst). 0, or
/// why not.
int ask_for_tiles() {
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0 ? 0 : errno;
}

struct InstructionSet {
  const Kernels& kernels;
  bool (*here)();
};

}  // namespace

const Kernels& choose_kernels(std::string_view isa) {
  const InstructionSet sets[] = {{amx::kKernels, has_amx},
                                 {avx512_bf16::kKernels, has_avx512_bf16},
                                 {avx512::kKernels, has_avx512},
                                 {avx2::kKernels, has_avx2},
                                 {baseline::kKernels, [] { return true; }}};
  const bool any = isa == "auto";
  for (const auto& [kernels, here] : sets) {
    const std::string_view name = kernels.isa;
    if (any ? !here() : name != isa) continue;
    if (!here()) {
      fail_config(
          "device.isa = \"{}\": this processor has no {}; name another, or \"auto\"", name, name);
    }
    const int refused = name == "amx" ? ask_for_tiles() : 0;
    if (refused == 0) return kernels;
    if (any) continue;  // an older Linux, a sandbox: the next best
    fail_config(
        "device.isa = \"amx\": the system gives this process no tile registers (arch_prctl: {}); "
        "name \"avx512_bf16\"",
        std::strerror(refused));
  }
  fail_config("device.isa = {}: there is no such instruction set", quote(isa));
}

}  // namespace tessera::cpu
