// What kernels use of tensor cores and of asynchronous copies, on the emulator: PTX's layouts of
// fragments, and the errors of a kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "plugins/devices/cuda/copy_async.hpp"
#include "plugins/devices/cuda/tensor_cores.hpp"
#include "tessera/random.hpp"

namespace tessera {
namespace tensor_cores_test {

using cuda::emulated::run_grid;
using ::testing::HasSubstr;

template <class T>
T value(int i) {
  return T(static_cast<float>((i * 37 % 61) - 30) / 16);
}

template <class T>
u32 bits(T first, T second) {
  const auto each = [](T v) { return u32{std::bit_cast<std::uint16_t>(v)}; };
  return each(first) | each(second) << 16;
}

// clang 16 has no typeinfo of _Float16.
struct Fp16 {
  using Type = Float16;
};
struct Bf16 {
  using Type = BFloat16;
};

template <class T>
class TensorCores : public ::testing::Test {};
using Types = ::testing::Types<Fp16, Bf16>;
TYPED_TEST_SUITE(TensorCores, Types);

TYPED_TEST(TensorCores, MultiplyFragmentsAsPtxLaysThemOut) {
  using T = typename TypeParam::Type;
  std::array<std::array<T, 16>, 16> a;  // [row][depth]
  std::array<std::array<T, 8>, 16> b;   // [depth][column]
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t k = 0; k < 16; ++k) a[i][k] = value<T>(static_cast<int>(i * 16 + k));
    for (std::size_t j = 0; j < 8; ++j) b[i][j] = value<T>(static_cast<int>(1000 + i * 8 + j));
  }
  std::array<std::array<float, 8>, 16> sums = {};
  ASSERT_EQ(
      run_grid(
          {.threads = 32},
          [&] {
            const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4 * 2;
            const auto of_a = [&](unsigned i, unsigned k) { return bits(a[i][k], a[i][k + 1]); };
            const auto of_b = [&](unsigned k) { return bits(b[k][g], b[k + 1][g]); };
            const u32 left[] = {of_a(g, t), of_a(g + 8, t), of_a(g, t + 8), of_a(g + 8, t + 8)};
            float four[] = {1, 2, 3, 4};
            cuda::mma<T>(four, left, of_b(t), of_b(t + 8));
            for (unsigned c = 0; c < 4; ++c) sums[g + c / 2 * 8][t + c % 2] = four[c];
          }),
      "");
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 8; ++j) {
      auto expected = static_cast<float>(1 + i / 8 * 2 + j % 2);
      for (std::size_t k = 0; k < 16; ++k) {
        expected += static_cast<float>(a[i][k]) * static_cast<float>(b[k][j]);
      }
      EXPECT_NEAR(sums[i][j], expected, 1e-4) << i << ", " << j;
    }
  }
}

TYPED_TEST(TensorCores, LoadMatricesByRowOrByColumn) {
  using T = typename TypeParam::Type;
  struct alignas(16) Matrices {
    T of[4][8][8];
  };
  std::array<int, 32> checked = {};
  ASSERT_EQ(run_grid({.threads = 32, .shared_bytes = sizeof(Matrices)},
                     [&] {
                       auto& m = cuda::shared<Matrices>().of;
                       const unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4 * 2;
                       for (int c = 0; c < 8; ++c) {
                         m[lane / 8][lane % 8][c] = value<T>(static_cast<int>(lane) * 8 + c);
                       }
                       __syncwarp();
                       u32 rows[4], columns[4];
                       cuda::load_matrices<false>(rows, m[lane / 8][lane % 8]);
                       cuda::load_matrices<true>(columns, m[lane / 8][lane % 8]);
                       for (int i = 0; i < 4; ++i) {
                         EXPECT_EQ(rows[i], bits(m[i][g][t], m[i][g][t + 1]));
                         EXPECT_EQ(columns[i], bits(m[i][t][g], m[i][t + 1][g]));
                         ++checked[lane];
                       }
                     }),
            "");
  EXPECT_THAT(checked, ::testing::Each(4));
}

TYPED_TEST(TensorCores, WantAllLanesOfAWarp) {
  using T = typename TypeParam::Type;
  const u32 a[4] = {};
  const auto multiply = [&] {
    float sums[4] = {};
    cuda::mma<T>(sums, a, 0, 0);
  };
  EXPECT_THAT(run_grid({.threads = 32},
                       [&] {
                         if (threadIdx.x != 7) multiply();
                       }),
              HasSubstr("thread 0 waits in an mma, thread 7 has ended"));
  // A shuffle of the others does not make up for it.
  EXPECT_THAT(run_grid({.threads = 32}, [&] { threadIdx.x < 16 ? multiply() : __syncwarp(); }),
              HasSubstr("thread 0 waits in an mma, thread 16 waits in a shuffle"));
  EXPECT_THAT(run_grid({.threads = 32, .shared_bytes = 1024},
                       [] {
                         u32 to[4];
                         cuda::load_matrices<false>(to, &cuda::shared<T>() + threadIdx.x);
                       }),
              HasSubstr("does not begin at a multiple of 16 bytes"));
}

struct alignas(16) Numbers {
  float of[8];
};

/// The error of a kernel of one warp, of which one thread copies; f: its end.
template <class F>
std::string copies(F f) {
  alignas(16) static const float from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  return run_grid({.threads = 32, .shared_bytes = sizeof(Numbers)}, [&] {
    if (threadIdx.x == 3) f(cuda::shared<Numbers>().of, from);
  });
}

TEST(AsyncCopies, ArriveAtTheWait) {
  EXPECT_EQ(copies([](float* to, const float* from) {
              to[0] = to[7] = 0;
              cuda::copy_async(to, from, 16);
              cuda::commit_copies();
              cuda::copy_async(to + 4, from + 4, 8);
              cuda::commit_copies();
              EXPECT_TRUE(std::isnan(to[0]) && std::isnan(to[7])) << "is seen before the wait";
              cuda::wait_for_copies<1>();
              EXPECT_EQ(to[0] + to[3], 5);
              EXPECT_TRUE(std::isnan(to[4])) << "is seen before the wait for its group";
              cuda::wait_for_copies<0>();
              EXPECT_EQ(to[4] + to[5], 11);
              EXPECT_EQ(to[6] + to[7], 0) << "what does not exist is 0";
            }),
            "");
}

TEST(AsyncCopies, AreErrorsWhereAGpuFailsOrNobodyWaits) {
  EXPECT_THAT(copies([](float* to, const float* from) { cuda::copy_async(to + 1, from, 16); }),
              HasSubstr("copy_async of addresses that are no multiples of 16"));
  EXPECT_THAT(copies([](float* to, const float* from) { cuda::copy_async(to, from + 1, 16); }),
              HasSubstr("copy_async of addresses that are no multiples of 16"));
  EXPECT_THAT(copies([](float* to, const float* from) { cuda::copy_async(to, from, 17); }),
              HasSubstr("copy_async of over 16 bytes"));
  EXPECT_THAT(copies([](float* to, const float* from) { cuda::copy_async(to + 8, from, 16); }),
              HasSubstr("copy_async to what is not the block's shared memory"));
  EXPECT_THAT(copies([](float* to, const float* from) {
                cuda::copy_async(to, from, 16);
                cuda::wait_for_copies<0>();  // of no group
              }),
              HasSubstr("a thread ends while its copy_async are on their way"));
}

TEST(Votes, OfABlockAreABarrier) {
  std::array<int, 64> found = {};
  ASSERT_EQ(run_grid({.threads = 64},
                     [&] {
                       const unsigned i = threadIdx.x;
                       found[i] = __syncthreads_or(0);
                       found[i] = found[i] * 10 + __syncthreads_or(i == 45);
                       found[i] = found[i] * 10 + __syncthreads_or(0);
                     }),
            "");
  EXPECT_THAT(found, ::testing::Each(10));
}

}  // namespace tensor_cores_test
}  // namespace tessera
