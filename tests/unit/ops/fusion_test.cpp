// Operations that do the work of several: devices that lack them compose it of the several, with
// the same bits, and what is written in place needs no memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tessera/device/communicator.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/ops.hpp"
#include "tessera/testing/workbench.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera::testing {
namespace fusion_test {

using Tensors = std::vector<Tensor>;
using Values = std::vector<double>;
using Names = std::vector<std::string_view>;

std::vector<Kernel> kernels_of(const Device& whole, const Names& lacks) {
  std::vector<Kernel> kernels;
  for (const std::string_view name : CoreOperations::Without<HostOperations>::names()) {
    if (std::ranges::find(lacks, name) == lacks.end()) kernels.push_back(*whole.find(name));
  }
  return kernels;
}

// The kernels of another device, but some.
class Part final : public HostDevice {
 public:
  Part(const Device& whole, const Names& lacks)
      : HostDevice("part", {}, kernels_of(whole, lacks)) {}
};

class OneLoss final : public StepSink {
 public:
  explicit OneLoss(Tensor inverse_weight) : inverse_weight_(std::move(inverse_weight)) {}
  Tensor inverse_weight(LossTerm) override { return inverse_weight_; }
  void add_loss(Context&, LossTerm, const Tensor& scalar) override { loss = read(scalar); }
  void report(Context&, Metric, const Tensor&) override {}
  void count(Context&, Counts, i64, const Tensor&) override {}
  Values loss;

 private:
  Tensor inverse_weight_;
};

constexpr i64 kRows = 70, kFeatures = 40, kInner = 50, kVocabulary = 33;

// The loss of x + down(gelu(up(norm(x)))), and the gradients of x and of all parameters. `factor`
// is the loss's, which takes it out of the weight: it changes nothing.
std::vector<Values> step(Device& device,
                         DType dtype,
                         bool centred,
                         std::initializer_list<Half> halves,
                         double factor = 1) {
  Workbench bench(device);
  Context& cx = bench.context();
  u64 seed = 0;
  const auto parameter = [&](const Shape& shape) {
    return bench.parameter("p", bench.random(shape, dtype, ++seed));
  };
  const std::array all = {parameter({kFeatures}),
                          parameter({kFeatures}),
                          parameter({kInner, kFeatures}),
                          parameter({kInner}),
                          parameter({kFeatures, kInner}),
                          parameter({kFeatures}),
                          parameter({kVocabulary, kFeatures})};
  Values targets, mask;
  for (i64 row = 0; row < kRows; ++row) {
    targets.push_back(static_cast<double>(row * 7 % (kVocabulary - 1)));
    mask.push_back(row % 5 == 0 ? 0 : 1);
  }
  OneLoss sink(bench.tensor({1}, DType::fp64, {1.0 / 56 / factor}));
  Tape tape;
  cx.tape = &tape;
  cx.sink = &sink;
  cx.loss_scale = bench.tensor({1}, DType::fp64, {8});
  Tensors x = {bench.random({kRows, kFeatures}, dtype, 100).with_var(kNeedsGradient)};
  const Tape::FrameId frame = tape.begin(x);
  Tensor y = centred ? ops::layernorm(cx, x[0], *all[0], *all[1], 1e-5)
                     : ops::rmsnorm(cx, x[0], *all[0], 1e-5);
  y = ops::gelu(cx, ops::linear(cx, y, *all[2], all[3].get()));
  y = ops::add(cx, ops::linear(cx, y, *all[4], all[5].get()), x[0]);
  ProcessGroup alone({.name = "tp[0]", .members = {0}}, nullptr, 0);
  ops::add_cross_entropy(cx,
                         {},
                         ops::linear(cx, y, *all[6], nullptr),
                         bench.tensor({kRows}, DType::i64, targets),
                         bench.tensor({kRows}, DType::u8, mask),
                         0,
                         kVocabulary - 1,
                         alone,
                         "loss",
                         factor);
  tape.end();
  std::vector<Tape::Gradient> gradients;
  std::vector<Values> found = {sink.loss};
  for (const Half half : halves) {
    tape.backward(cx, frame, half, gradients);
    if (half != Half::weight) found.push_back(read(gradients[0].tensor));
  }
  for (const auto& each : all) found.push_back(read(each->grad));
  return found;
}

const Names kFused = {
    LinearWeightArgs::kName, LayerNormBackwardAddArgs::kName, WholeCrossEntropyArgs::kName};
const Names kParts = {ColumnSumArgs::kName,
                      LayerNormBackwardArgs::kName,
                      CrossEntropyMaxArgs::kName,
                      CrossEntropySumsArgs::kName,
                      CrossEntropyGradArgs::kName};

TEST(Fusion, DevicesWithoutItGiveTheSameBits) {
  // Tiles sum the gradient of a bias in another order than column_sum, oneDNN calls it.
  for (const auto& [whole, dtype] : {std::pair{test_device("reference"), DType::fp64},
                                     std::pair{cpu_device({"fp32_matmul=onednn"}), DType::fp32}}) {
    Part fused(*whole, kParts), composed(*whole, kFused);
    for (const bool centred : {true, false}) {
      const std::vector<Values> expected = step(composed, dtype, centred, {Half::both});
      EXPECT_EQ(step(fused, dtype, centred, {Half::both}), expected)
          << whole->name() << ", centred " << centred;
      EXPECT_EQ(step(fused, dtype, centred, {Half::input, Half::weight}), expected)
          << whole->name() << ", centred " << centred << ", halves";
      for (Device* device : {&fused, &composed}) {
        EXPECT_EQ(step(*device, dtype, centred, {Half::both}, 0.25), expected)
            << whole->name() << ", centred " << centred << ", a quarter of the loss";
      }
    }
  }
}

class InPlace : public ::testing::Test {
 protected:
  static constexpr i64 kSide = 256, kBytes = kSide * kSide * 4;

  InPlace() { cx_.tape = &tape_; }
  Tensor matrix() { return bench_.random({kSide, kSide}, DType::fp32, ++seed_); }
  i64 live() const {
    return device_->memory().bytes[static_cast<std::size_t>(Category::activations)];
  }
  i64 peak() const {
    return device_->memory().peak[static_cast<std::size_t>(Category::activations)];
  }
  // How much more the backward pass of `f` takes than is live before it.
  template <class F>
  i64 taken_by_backward(int results, F&& f) {
    Tensors x = {matrix().with_var(kNeedsGradient)};
    const Tape::FrameId frame = tape_.begin(x);
    {
      const Tensors y = f(x[0]);
      tape_.end(y);
    }
    std::vector<Tape::Gradient> gradients(static_cast<std::size_t>(results));
    for (Tape::Gradient& gradient : gradients) gradient.tensor = matrix();
    const i64 before = live();
    device_->reset_peaks();
    tape_.backward(cx_, frame, Half::both, gradients);
    return peak() - before;
  }

  std::shared_ptr<Device> device_ = test_device("cpu");
  Workbench bench_{*device_};
  Context& cx_ = bench_.context();
  Tape tape_;
  u64 seed_ = 0;
};

TEST_F(InPlace, GeluOverwritesItsGradient) {
  EXPECT_EQ(taken_by_backward(1, [&](const Tensor& x) { return Tensors{ops::gelu(cx_, x)}; }), 0);
  const auto exact = [&](const Tensor& x) { return Tensors{ops::gelu_erf(cx_, x)}; };
  EXPECT_EQ(taken_by_backward(1, exact), 0);
}

TEST_F(InPlace, NormAddsToWhatOthersContributed) {
  const auto weight = bench_.parameter("weight", bench_.random({kSide}, DType::fp32, 7));
  const auto bias = bench_.parameter("bias", bench_.random({kSide}, DType::fp32, 8));
  const auto f = [&](const Tensor& x) {
    return Tensors{ops::layernorm(cx_, x, *weight, *bias, 1e-5), ops::scale(cx_, x, 2)};
  };
  EXPECT_EQ(taken_by_backward(2, f), kBytes) << "the gradient of scale";
  const auto rms = [&](const Tensor& x) {
    return Tensors{ops::rmsnorm(cx_, x, *weight, 1e-5), ops::scale(cx_, x, 2)};
  };
  EXPECT_EQ(taken_by_backward(2, rms), kBytes) << "the gradient of scale";
}

TEST_F(InPlace, CrossEntropyOverwritesLogitsThatWereMovedIn) {
  OneLoss sink(bench_.tensor({1}, DType::fp64, {1}));
  cx_.sink = &sink;
  cx_.loss_scale = bench_.tensor({1}, DType::fp64, {1});
  const Values zeros(kSide), ones(kSide, 1);
  const Tensor targets = bench_.tensor({kSide}, DType::i64, zeros);
  const Tensor mask = bench_.tensor({kSide}, DType::u8, ones);
  Tensors x = {matrix().with_var(kNeedsGradient)};
  const i64 before = live();
  const Tape::FrameId frame = tape_.begin(x);
  ProcessGroup alone({.name = "tp[0]", .members = {0}}, nullptr, 0);
  ops::add_cross_entropy(cx_, {}, ops::scale(cx_, x[0], 1), targets, mask, 0, kSide, alone, "loss");
  tape_.end();
  EXPECT_LT(live() - before, kBytes + kBytes / 16) << "logits, and some numbers for each row";
  tape_.release(frame);
}

}  // namespace fusion_test
}  // namespace tessera::testing
