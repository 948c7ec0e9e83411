// Products by cuBLASLt on the emulator: plans, what they are kept by, and errors. What they compute
// is checked with all operations (tests/unit/ops/conformance_test.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "tessera/device/core_ops.hpp"
#include "tessera/random.hpp"
#include "tests/common/error_of.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace products_test {

using testing::error_of;
using ::testing::HasSubstr;

constexpr i64 kWorkspace = i64{32} << 20;

class CudaProducts : public ::testing::Test {
 protected:
  Tensor tensor(const Shape& shape, DType dtype = DType::fp32) {
    Tensor made = Tensor::allocate(
        *device_, device_->pool(), device_->stream(), shape, dtype, Category::activations);
    kept_.push_back(made);
    return made;
  }
  /// Values from -1 to 1, some of them not exact in fewer bits.
  Tensor values(const Shape& shape) {
    Tensor made = tensor(shape);
    std::vector<float> host(static_cast<std::size_t>(shape.elements()));
    for (std::size_t i = 0; i < host.size(); ++i) {
      host[i] = static_cast<float>(random_uniform(7, i) * 2 - 1);
    }
    device_->write(made, host.data());
    return made;
  }
  static std::vector<float> read(const Tensor& tensor) {
    std::vector<float> host(static_cast<std::size_t>(tensor.elements()));
    tensor.device().read(tensor, host.data());
    return host;
  }
  MatmulArgs product(i64 m, i64 n, i64 k, DType dtype = DType::fp32) {
    MatmulArgs args;
    args.a = tensor({m, k}, dtype).arg();
    args.b = tensor({k, n}, dtype).arg();
    args.out = tensor({m, n}, dtype).arg();
    return args;
  }
  template <class Args>
  LaunchRequirements prepare(const Args& args) {
    return device_->find(Args::kName)->prepare(&args);
  }
  void launch(const MatmulArgs& args) {
    Operation<MatmulArgs>(*device_).launch(device_->stream(), device_->pool(), args);
  }
  std::shared_ptr<Device> device_ = test_device("cuda_emulated");
  std::vector<Tensor> kept_;
};

TEST_F(CudaProducts, APlanIsMadeOnceForWhatTheChoiceDependsOn) {
  MatmulArgs args = product(8, 16, 24);
  EXPECT_TRUE(prepare(args).first_use);
  EXPECT_FALSE(prepare(args).first_use);
  EXPECT_EQ(prepare(args).workspace_bytes, kWorkspace);
  MatmulArgs elsewhere = product(8, 16, 24);
  EXPECT_FALSE(prepare(elsewhere).first_use) << "other addresses";
  elsewhere.b.address = elsewhere.b.as<float>() + 1;
  EXPECT_TRUE(prepare(elsewhere).first_use) << "no multiple of 16 bytes";
  args.accumulate = true;
  EXPECT_TRUE(prepare(args).first_use);
  args.transpose_b = true;
  args.b = tensor({16, 24}).arg();
  EXPECT_TRUE(prepare(args).first_use);
  args.b.strides[0] = 32;
  EXPECT_TRUE(prepare(args).first_use);
  EXPECT_TRUE(prepare(product(8, 16, 24, DType::bf16)).first_use);
}

TEST_F(CudaProducts, ABiasThatTheLibraryDoesNotAddIsThereBefore) {
  MatmulArgs args = product(1, 16, 24);  // fake_cublaslt.cpp refuses
  const Tensor bias = values({16}), out = tensor({1, 16});
  const Tensor b = values({24, 16}), zeros = tensor({1, 24});
  device_->write(zeros, std::vector<float>(24).data());
  args.a = zeros.arg();
  args.b = b.arg();
  args.bias = bias.arg();
  args.out = out.arg();
  EXPECT_TRUE(prepare(args).first_use);
  EXPECT_FALSE(prepare(args).first_use);
  launch(args);
  EXPECT_EQ(read(out), read(bias));
}

TEST_F(CudaProducts, NothingToMultiplyNeedsNoPlan) {
  for (const auto& [m, n, k] : {std::array<i64, 3>{0, 3, 5}, {3, 0, 5}, {3, 5, 0}}) {
    const LaunchRequirements needs = prepare(product(m, n, k));
    EXPECT_FALSE(needs.first_use);
    EXPECT_EQ(needs.workspace_bytes, 0);
  }
}

TEST_F(CudaProducts, AWeightGradientHasTheWorkspaceOfItsProduct) {
  LinearWeightArgs args;
  args.grad = tensor({8, 4}).arg();
  args.x = tensor({8, 6}).arg();
  args.weight_grad = tensor({4, 6}).arg();
  args.bias_grad = tensor({4}).arg();
  const LaunchRequirements needs = prepare(args);
  EXPECT_TRUE(needs.first_use);
  EXPECT_EQ(needs.workspace_bytes, kWorkspace);
}

TEST_F(CudaProducts, HaveTheSameBitsInEachRun) {
  const Tensor a = values({33, 100}), b = values({100, 17});
  std::vector<float> first;
  for (int run = 0; run < 100; ++run) {
    const Tensor out = tensor({33, 17});
    MatmulArgs args;
    args.a = a.arg();
    args.b = b.arg();
    args.out = out.arg();
    launch(args);
    const std::vector<float> now = read(out);
    if (run == 0) first = now;
    ASSERT_EQ(now, first) << "run " << run;
  }
}

TEST_F(CudaProducts, AreInFp32UnlessAskedOtherwise) {
  EXPECT_THAT(device_->hardware(), ::testing::Not(HasSubstr("TF32")));
}

TEST_F(CudaProducts, SayWhichProductTheLibraryRefuses) {
  MatmulArgs args = product(8, 16, 24);
  args.b.strides[0] = 1;  // rows that overlap
  EXPECT_EQ(error_of([&] { prepare(args); }),
            "cuBLASLt has no way to compute [8, 24] · [24, 16] of fp32 to fp32, rows 24, 1 and 16 "
            "apart, addresses multiples of 16, 16 and 16 bytes: CUBLAS_STATUS_INVALID_VALUE");
}

TEST(CudaPlannedProducts, KnowTheirWorkspaceWithoutALibrary) {
  DeviceArguments arguments;
  arguments.planned = true;
  const auto planned = test_device("cuda_emulated", arguments);
  MatmulArgs args;
  const Tensor matrix = Tensor::allocate(
      *planned, planned->pool(), planned->stream(), {4, 4}, DType::bf16, Category::activations);
  args.a = args.b = args.out = matrix.arg();
  const LaunchRequirements needs = planned->find("matmul")->prepare(&args);
  EXPECT_FALSE(needs.first_use);
  EXPECT_EQ(needs.workspace_bytes, kWorkspace);
}

}  // namespace products_test
}  // namespace tessera
