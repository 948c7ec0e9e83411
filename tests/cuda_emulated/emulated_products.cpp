// mma: a product of 16 × 16 by 16 × 8, from what the lanes of a warp hold of the two.
#include "emulated_gpu.hpp"

namespace tessera::cuda::emulated {
namespace {

/// What a lane gives to the others: a0 … a3 and b0, b1 of PTX, two values each.
struct Given {
  float a[8], b[4];
};
static_assert(sizeof(Given) == kLaneBytes);

}  // namespace

void multiply_add(float (&sums)[4], const float (&a)[8], const float (&b)[4]) {
  Given given;
  std::memcpy(given.a, a, sizeof a);
  std::memcpy(given.b, b, sizeof b);
  const std::byte* bytes = warp_exchange(&given, sizeof given, Together::product);
  const auto* of = reinterpret_cast<const Given*>(bytes);
  const int exchanged = planted() == Planted::fragment ? 1 : 0;
  const int row = lane() / 4, column = lane() % 4 * 2;
  for (int high = 0; high < 2; ++high) {  // columns of a, rows of b: 8 and more
    for (int t = 0; t < 4; ++t) {
      const Given& left = of[row * 4 + t];
      for (int e = 0; e < 2; ++e) {
        const float upper = left.a[high * 4 + e], lower = left.a[high * 4 + 2 + e];
        for (int c = 0; c < 2; ++c) {
          const float right = of[(column + c) * 4 + t].b[(high ^ exchanged) * 2 + e];
          sums[c] += upper * right;
          sums[2 + c] += lower * right;
        }
      }
    }
  }
}

}  // namespace tessera::cuda::emulated
