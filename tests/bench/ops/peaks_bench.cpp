// What one core can do: FLOPs of products that stay in registers, and bytes of memcpy by the size
// of what it moves. roofline.py sets operations against them.
#include <benchmark/benchmark.h>
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace {

using benchmark::Counter;

// More sums than latency times throughput. An empty asm keeps each of them in a register of its
// own.
constexpr int kTurns = 100'000, kSums = 24;

__attribute__((target("avx512f"))) float fma_of_avx512(float factor) {
  __m512 sums[kSums] = {};
  const __m512 a = _mm512_set1_ps(factor);
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma GCC unroll 24
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(a, a, sum);
      asm volatile("" : "+v"(sum));
    }
  }
  float total = 0;
#pragma GCC unroll 24
  for (const __m512& sum : sums) total += sum[0];
  return total;
}

__attribute__((target("avx512f,avx512bf16"))) float dot_of_avx512_bf16(float factor) {
  __m512 sums[kSums] = {};
  const __m512bh a = (__m512bh)_mm512_set1_epi32(static_cast<int>(factor));
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma GCC unroll 24
    for (__m512& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, a, a);
      asm volatile("" : "+v"(sum));
    }
  }
  float total = 0;
#pragma GCC unroll 24
  for (const __m512& sum : sums) total += sum[0];
  return total;
}

/// Four tiles of sums, of two tiles of each factor, as products have them. The system has given
/// this process tile registers.
float tiles_of_amx(float) {
  struct alignas(64) Configuration {
    unsigned char palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    unsigned char rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  const Configuration all;
  asm volatile("ldtilecfg %0" ::"m"(all));
  for (int turn = 0; turn < kTurns; ++turn) {
    asm volatile(
        "tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\t"
        "tdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps %tmm7, %tmm5, %tmm3");
  }
  asm volatile("tilerelease");
  return 0;
}

/// The processor multiplies tiles of bf16, and the system lets this process do it.
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBits = bit_AMX_BF16 | bit_AMX_TILE;
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBits) == kBits &&
         syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

__attribute__((target("avx2,fma"))) float fma_of_avx2(float factor) {
  constexpr int kFewer = kSums / 2;
  __m256 sums[kFewer] = {};
  const __m256 a = _mm256_set1_ps(factor);
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma GCC unroll 12
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(a, a, sum);
      asm volatile("" : "+x"(sum));
    }
  }
  float total = 0;
#pragma GCC unroll 12
  for (const __m256& sum : sums) total += sum[0];
  return total;
}

void measure(benchmark::State& state, float (*loop)(float), double flops_of_turn) {
  for (auto _ : state) benchmark::DoNotOptimize(loop(1e-3F));
  const double turns = static_cast<double>(state.iterations()) * kTurns;
  state.counters["flops"] = Counter(turns * flops_of_turn, Counter::kIsRate);
}

void fp32(benchmark::State& state) {
  if (__builtin_cpu_supports("avx512f")) return measure(state, fma_of_avx512, kSums * 32.0);
  if (__builtin_cpu_supports("fma")) return measure(state, fma_of_avx2, kSums / 2 * 16.0);
  state.SkipWithError("this processor has no fused multiply-add");
}

void bf16(benchmark::State& state) {
  if (has_amx()) return measure(state, tiles_of_amx, 4 * 2 * 16 * 16 * 32.0);
  if (__builtin_cpu_supports("avx512bf16")) {
    return measure(state, dot_of_avx512_bf16, kSums * 64.0);
  }
  fp32(state);  // bf16 is multiplied as fp32
}

/// Moves `bytes` in all: half is read and half is written.
void copy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<char> from(bytes / 2, 1), to(bytes / 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes / 2);
    benchmark::ClobberMemory();
  }
  const double moved = static_cast<double>(state.iterations()) * static_cast<double>(bytes);
  state.counters["bytes"] = Counter(moved, Counter::kIsRate);
}

BENCHMARK(fp32)->Name("peak/fp32");
BENCHMARK(bf16)->Name("peak/bf16");
BENCHMARK(copy)->Name("copy")->RangeMultiplier(4)->Range(1 << 18, 1 << 28);

}  // namespace
