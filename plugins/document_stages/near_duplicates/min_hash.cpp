#include "min_hash.hpp"

#include <cstring>
#include <span>
#include <vector>

#include "shingles.hpp"
#include "tessera/base/hash.hpp"

namespace tessera {
namespace {

constexpr int kHashes = kBands * kRows;

// x -> a x + b mod 2^32 with odd a orders the hashes of shingles in 128 ways.
struct Orders {
  std::array<u32, kHashes> a{}, b{};
  Orders() {
    u64 state = 0x9E3779B97F4A7C15U;
    for (int i = 0; i < kHashes; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's, for MMIX
      a[static_cast<std::size_t>(i)] = static_cast<u32>(state >> 32) | 1U;
      state = state * 6364136223846793005U + 1442695040888963407U;
      b[static_cast<std::size_t>(i)] = static_cast<u32>(state >> 32);
    }
  }
};

using Least = std::array<u32, kHashes>;

// Four vectors of eight at a time stay in registers while all shingles pass.
[[gnu::always_inline]] inline void least_hashes(const Orders& orders,
                                                std::span<const u64> shingles,
                                                Least& least) {
  using Eight [[gnu::vector_size(32)]] = u32;
  constexpr std::size_t kEights = 4, kAtOnce = kEights * 8;
  for (std::size_t first = 0; first < kHashes; first += kAtOnce) {
    Eight a[kEights], b[kEights], now[kEights];
    std::memcpy(a, &orders.a[first], sizeof a);
    std::memcpy(b, &orders.b[first], sizeof b);
    std::memcpy(now, &least[first], sizeof now);
    for (const u64 shingle : shingles) {
      const auto x = static_cast<u32>(shingle >> 32);
      for (std::size_t i = 0; i < kEights; ++i) {
        const Eight hash = a[i] * x + b[i];
        now[i] = hash < now[i] ? hash : now[i];
      }
    }
    std::memcpy(&least[first], now, sizeof now);
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void least_avx2(const Orders& orders,
                                        std::span<const u64> shingles,
                                        Least& least) {
  least_hashes(orders, shingles, least);
}
#endif

void least_anywhere(const Orders& orders, std::span<const u64> shingles, Least& least) {
  least_hashes(orders, shingles, least);
}

}  // namespace

std::array<u64, kBands> band_hashes(std::string_view text) {
  static const Orders kOrders;
  thread_local std::vector<u64> shingles;
  shingle_hashes(text, shingles);
  Least least;
  least.fill(~u32{0});
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0) {
    least_avx2(kOrders, shingles, least);
  } else {
    least_anywhere(kOrders, shingles, least);
  }
#else
  least_anywhere(kOrders, shingles, least);
#endif
  std::array<u64, kBands> bands{};
  for (std::size_t band = 0; band < kBands; ++band) {
    bands[band] = hash64(std::as_bytes(std::span(least).subspan(band * kRows, kRows)), band);
  }
  return bands;
}

}  // namespace tessera
