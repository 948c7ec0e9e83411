// Gradients of every function of ops:: against finite differences, on the reference in fp64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tessera/device/communicator.hpp"
#include "tessera/moe_ops.hpp"
#include "tessera/random.hpp"
#include "tessera/testing/gradient_check.hpp"
#include "tessera/testing/workbench.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace gradient_test {

using testing::gradient_check;
using Tensors = std::vector<Tensor>;

class Gradient : public ::testing::Test {
 protected:
  Tensor random(const Shape& shape, u64 seed, double low = -1, double high = 1) {
    return bench_.random(shape, DType::fp64, seed, low, high);
  }
  std::unique_ptr<Parameter> parameter(const std::string& name, const Shape& shape, u64 seed) {
    return bench_.parameter(name, random(shape, seed));
  }
  Tensor rows(i64 n) {
    std::vector<double> values;
    for (i64 i = 0; i < n; ++i) values.push_back(static_cast<double>(row_id(3 + i / 4, i % 4)));
    return bench_.tensor({n}, DType::i64, values);
  }

  std::shared_ptr<Device> device_ = test_device("reference", 1);
  testing::Workbench bench_{*device_};
  Context& cx_ = bench_.context();
};

TEST_F(Gradient, Linear) {
  const auto weight = parameter("weight", {3, 4}, 1), bias = parameter("bias", {3}, 2);
  Parameter* both[] = {weight.get(), bias.get()};
  const auto f = [&](Context& cx, const Tensors& x) {
    return Tensors{ops::linear(cx, x[0], *weight, bias.get())};
  };
  EXPECT_EQ(gradient_check(cx_, f, {random({5, 4}, 3)}, both), "");
  const auto plain = [&](Context& cx, const Tensors& x) {
    return Tensors{ops::linear(cx, x[0], *weight, nullptr)};
  };
  EXPECT_EQ(gradient_check(cx_, plain, {random({5, 4}, 3)}, std::span(both, 1)), "");
}

TEST_F(Gradient, AddBias) {
  const auto bias = parameter("bias", {4}, 2);
  Parameter* all[] = {bias.get()};
  const auto f = [&](Context& cx, const Tensors& x) {
    return Tensors{ops::add_bias(cx, ops::scale(cx, x[0], 2), *bias)};
  };
  EXPECT_EQ(gradient_check(cx_, f, {random({5, 4}, 3)}, all), "");
}

TEST_F(Gradient, LayerNorm) {
  const auto weight = parameter("weight", {6}, 1), bias = parameter("bias", {6}, 2);
  Parameter* both[] = {weight.get(), bias.get()};
  const auto f = [&](Context& cx, const Tensors& x) {
    return Tensors{ops::layernorm(cx, x[0], *weight, *bias, 1e-5)};
  };
  EXPECT_EQ(gradient_check(cx_, f, {random({5, 6}, 3, -2, 3)}, both), "");
  // Adds what a residual connection contributes, before and after.
  const auto residual = [&](Context& cx, const Tensors& x) {
    const Tensor before = ops::scale(cx, x[0], 3);
    const Tensor y = ops::layernorm(cx, x[0], *weight, *bias, 1e-5);
    return Tensors{ops::add(cx, y, x[0]), before};
  };
  EXPECT_EQ(gradient_check(cx_, residual, {random({5, 6}, 3, -2, 3)}, both), "");
}

TEST_F(Gradient, RmsNorm) {
  const auto weight = parameter("weight", {6}, 1);
  Parameter* all[] = {weight.get()};
  // Not centred, and an eps that counts.
  for (const double eps : {1e-5, 0.5}) {
    const auto f = [&](Context& cx, const Tensors& x) {
      return Tensors{ops::rmsnorm(cx, x[0], *weight, eps)};
    };
    EXPECT_EQ(gradient_check(cx_, f, {random({5, 6}, 3, -2, 3)}, all), "");
    const auto residual = [&](Context& cx, const Tensors& x) {
      const Tensor before = ops::scale(cx, x[0], 3);
      const Tensor y = ops::rmsnorm(cx, x[0], *weight, eps);
      return Tensors{ops::add(cx, y, x[0]), before};
    };
    EXPECT_EQ(gradient_check(cx_, residual, {random({5, 6}, 3, -2, 3)}, all), "");
  }
}

TEST_F(Gradient, Pointwise) {
  const Tensors two = {random({3, 5}, 1, -3, 3), random({3, 5}, 2)};
  const auto gelu = [](Context& cx, const Tensors& x) { return Tensors{ops::gelu(cx, x[0])}; };
  EXPECT_EQ(gradient_check(cx_, gelu, two), "");
  const auto exact = [](Context& cx, const Tensors& x) { return Tensors{ops::gelu_erf(cx, x[0])}; };
  EXPECT_EQ(gradient_check(cx_, exact, two), "");
  const auto tanh = [](Context& cx, const Tensors& x) { return Tensors{ops::tanh(cx, x[0])}; };
  EXPECT_EQ(gradient_check(cx_, tanh, two), "");
  const auto add = [](Context& cx, const Tensors& x) { return Tensors{ops::add(cx, x[0], x[1])}; };
  EXPECT_EQ(gradient_check(cx_, add, two), "");
  const auto multiply = [](Context& cx, const Tensors& x) {
    return Tensors{ops::multiply(cx, x[0], x[1])};
  };
  EXPECT_EQ(gradient_check(cx_, multiply, two), "");
  const auto scale = [](Context& cx, const Tensors& x) {
    return Tensors{ops::scale(cx, x[0], -1.5)};
  };
  EXPECT_EQ(gradient_check(cx_, scale, two), "");
}

TEST_F(Gradient, OneValueUsedOften) {
  const auto f = [](Context& cx, const Tensors& x) {
    const Tensor square = ops::multiply(cx, x[0], x[0]);
    return Tensors{ops::add(cx, ops::multiply(cx, square, x[0]), square), square};
  };
  EXPECT_EQ(gradient_check(cx_, f, {random({7}, 1)}), "");
}

TEST_F(Gradient, Dropout) {
  const Tensor ids = rows(6);
  for (const double p : {0.0, 0.4}) {
    const auto residual = [&](Context& cx, const Tensors& x) {
      return Tensors{ops::dropout(cx, x[0], x[1], ids, p, 42, 2)};
    };
    EXPECT_EQ(gradient_check(cx_, residual, {random({6, 9}, 1), random({6, 9}, 2)}), "");
    const auto alone = [&](Context& cx, const Tensors& x) {
      return Tensors{ops::dropout(cx, x[0], Tensor(), ids, p, 42, 2)};
    };
    EXPECT_EQ(gradient_check(cx_, alone, {random({6, 9}, 1)}), "");
  }
}

TEST_F(Gradient, Embedding) {
  const auto table = parameter("table", {4, 3}, 1);
  Parameter* all[] = {table.get()};
  const Tensor ids = bench_.tensor({6}, DType::i64, {1, 5, 2, 2, 0, 4});
  const auto f = [&](Context& cx, const Tensors&) {
    return Tensors{ops::embedding(cx, ids, *table, 2)};
  };
  EXPECT_EQ(gradient_check(cx_, f, {}, all), "");
}

TEST_F(Gradient, SplitAndJoin) {
  const auto f = [](Context& cx, const Tensors& x) {
    const std::vector<Tensor> parts = ops::split(cx, x[0], {2, 1, 3});  // the second is not used
    return Tensors{ops::join(cx, {parts[2], ops::multiply(cx, parts[0], parts[0])}), parts[0]};
  };
  EXPECT_EQ(gradient_check(cx_, f, {random({4, 6}, 1)}), "");
}

TEST_F(Gradient, Rotary) {
  const Tensor table = random({5, 2, 2}, 1);  // any numbers: the operation is linear in x
  const Tensor positions = bench_.tensor({3}, DType::i64, {4, 0, 2});
  for (const bool interleaved : {false, true}) {
    const ops::RotaryShape shape{.heads = 2, .head_dim = 5, .interleaved = interleaved};
    const auto moved = [&](Context& cx, const Tensors& x) {
      return Tensors{ops::rotary(cx, ops::scale(cx, x[0], 2), positions, table, shape)};
    };
    EXPECT_EQ(gradient_check(cx_, moved, {random({3, 11}, 2)}), "");
    const auto kept = [&](Context& cx, const Tensors& x) {
      const Tensor doubled = ops::scale(cx, x[0], 2);
      return Tensors{ops::rotary(cx, doubled, positions, table, shape), doubled};
    };
    EXPECT_EQ(gradient_check(cx_, kept, {random({3, 11}, 2)}), "");
  }
}

TEST_F(Gradient, Attention) {
  const ops::AttentionShape shape{
      .batch = 2, .sequence = 4, .heads = 4, .kv_heads = 2, .head_dim = 3};
  const Tensor ids = rows(8);
  for (const double dropout : {0.0, 0.3}) {
    for (const bool causal : {true, false}) {
      const AttentionSpec spec{.scale = 0.6,
                               .causal = causal,
                               .window = causal && dropout > 0 ? 2 : 0,
                               .dropout = dropout,
                               .key = 8};
      const auto f = [&](Context& cx, const Tensors& x) {
        return Tensors{ops::attention(cx, x[0], ids, shape, spec)};
      };
      EXPECT_EQ(gradient_check(cx_, f, {random({8, 24}, 1, -2, 2)}, {}, {.probes = 192}), "");
    }
  }
}

TEST_F(Gradient, CrossEntropy) {
  ProcessGroup alone({.name = "tp[0]", .members = {0}}, nullptr, 0);
  const Tensor targets = bench_.tensor({4}, DType::i64, {0, 6, 3, 1});
  const Tensor mask = bench_.tensor({4}, DType::u8, {1, 1, 0, 1});
  const Tensor inverse_weight = bench_.tensor({1}, DType::fp64, {1.0 / 3});
  const auto f = [&](Context& cx, const Tensors& x) {
    const Tensor logits = ops::scale(cx, x[0], 3);
    return Tensors{
        ops::cross_entropy(cx, logits, targets, mask, inverse_weight, 0, 7, alone, "loss")};
  };
  EXPECT_EQ(gradient_check(cx_, f, {random({4, 8}, 1)}), "");
}

TEST_F(Gradient, Router) {
  const Tensor bias = random({8}, 4);
  for (const RouterScore score : {RouterScore::softmax,
                                  RouterScore::softmax_before,
                                  RouterScore::sigmoid,
                                  RouterScore::sqrt_softplus}) {
    for (const i64 k : {1, 4}) {
      const RouterSpec spec{.top_k = k, .score = score, .groups = 4, .group_top_k = k, .scale = 2};
      const auto f = [&](Context& cx, const Tensors& x) {
        return Tensors{ops::topk_router(cx, x[0], bias, spec).weights};
      };
      EXPECT_EQ(gradient_check(cx_, f, {random({5, 8}, 1, -3, 3)}), "");
    }
  }
  const Tensor given = bench_.tensor({2, 2}, DType::i32, {3, 0, -1, 5});
  const auto f = [&](Context& cx, const Tensors& x) {
    return Tensors{ops::router_weights(cx, x[0], given, {.top_k = 2})};
  };
  EXPECT_EQ(gradient_check(cx_, f, {random({2, 8}, 1, -3, 3)}), "");
}

TEST_F(Gradient, AuxiliaryLosses) {
  ProcessGroup alone({.name = "tp-cp[0]", .members = {0}}, nullptr, 0);
  const Tensor weight = bench_.tensor({1}, DType::fp64, {0.5});
  for (const RouterScore score :
       {RouterScore::softmax, RouterScore::sigmoid, RouterScore::sqrt_softplus}) {
    const ops::BalanceSpec spec{.score = score,
                                .top_k = 2,
                                .coefficient = 4,
                                .length = 3,
                                .rows = {.positions = 3, .sequences = 2}};
    const auto f = [&](Context& cx, const Tensors& x) {
      return Tensors{ops::balance_loss(cx, x[0], Tensor(), spec, weight, alone, "balance")};
    };
    EXPECT_EQ(gradient_check(cx_, f, {random({6, 5}, 1, -2, 2)}), "");
  }
  const auto z = [&](Context& cx, const Tensors& x) {
    return Tensors{ops::z_loss(cx, x[0], 0.25, weight)};
  };
  EXPECT_EQ(gradient_check(cx_, z, {random({6, 5}, 1, -2, 2)}), "");
}

TEST_F(Gradient, Jitter) {
  const Tensor rows = bench_.tensor({3}, DType::i64, {row_id(0, 0), row_id(0, 1), row_id(2, 5)});
  const auto f = [&](Context& cx, const Tensors& x) {
    return Tensors{ops::jitter(cx, x[0], rows, 0.25, 9)};
  };
  EXPECT_EQ(gradient_check(cx_, f, {random({3, 6}, 1, -2, 2)}), "");
}

// coefficient · E / (k · T²) · Σ counts · Σ shares: the coefficient where all is even.
TEST_F(Gradient, BalancedExpertsCostTheCoefficient) {
  ProcessGroup alone({.name = "tp-cp[0]", .members = {0}}, nullptr, 0);
  const Tensor one = bench_.tensor({1}, DType::fp64, {1});
  const Tensor logits = bench_.tensor({4, 2}, DType::fp64, {1, 0, 0, 1, 1, 0, 0, 1});
  const ops::BalanceSpec spec{.coefficient = 0.01, .length = 4, .rows = {}};
  const auto loss = ops::balance_loss(cx_, logits, Tensor(), spec, one, alone, "balance");
  EXPECT_NEAR(testing::read(loss)[0], 0.01, 1e-16);
}

TEST_F(Gradient, RowsOfExperts) {
  const Tensor experts = bench_.tensor({4, 2}, DType::i32, {2, 0, 0, 1, -1, 2, 2, 1});
  const auto [order, inverse] = ops::sort_by_expert(cx_, experts, 3);
  const Tensor kept = order.slice(0, 0, 7);  // without the dropped choice
  for (const bool given : {false, true}) {
    const auto there = [&](Context& cx, const Tensors& x) {
      return Tensors{ops::permute_rows(cx, x[0], kept, 2, given ? inverse : Tensor())};
    };
    EXPECT_EQ(gradient_check(cx_, there, {random({4, 3}, 1)}), "");
    const auto back = [&](Context& cx, const Tensors& y) {
      return Tensors{ops::unpermute_rows(cx, y[0], inverse, given ? kept : Tensor())};
    };
    EXPECT_EQ(gradient_check(cx_, back, {random({7, 3}, 1)}), "");
  }
}

TEST_F(Gradient, ExpertsOfAMixture) {
  const auto up = parameter("up", {3, 4, 10}, 1), down = parameter("down", {3, 5, 4}, 2);
  Parameter* both[] = {up.get(), down.get()};
  const Tensor counts = bench_.tensor({3}, DType::i64, {4, 0, 2});
  const auto f = [&](Context& cx, const Tensors& x) {
    const Tensor inner = ops::grouped_linear(cx, x[0], *up, counts);
    const Tensor active = ops::weighted_activation(cx, inner, x[1], Activation::swiglu);
    return Tensors{ops::grouped_linear(cx, active, *down, counts)};
  };
  // Two rows of padding.
  EXPECT_EQ(gradient_check(cx_, f, {random({8, 4}, 3), random({8}, 4)}, both), "");
  for (const Activation activation : {Activation::swiglu, Activation::gelu, Activation::geglu}) {
    for (const bool weighted : {false, true}) {
      const auto active = [&](Context& cx, const Tensors& x) {
        const Tensor weights = weighted ? x[1] : Tensor();
        return Tensors{ops::weighted_activation(cx, x[0], weights, activation)};
      };
      EXPECT_EQ(gradient_check(cx_, active, {random({5, 6}, 3), random({5}, 4)}), "");
    }
  }
}

TEST_F(Gradient, ReshapeAndSlice) {
  const auto f = [](Context& cx, const Tensors& x) {
    const Tensor wide = ops::reshape(cx, x[0], {3, 8});
    return Tensors{ops::multiply(cx, ops::slice(cx, wide, 1, 1, 3), ops::slice(cx, wide, 1, 5, 3))};
  };
  EXPECT_EQ(gradient_check(cx_, f, {random({6, 4}, 1)}), "");
}

TEST_F(Gradient, RecomputedMlp) {
  const auto up = parameter("up", {8, 4}, 1), down = parameter("down", {4, 8}, 2);
  const auto bias = parameter("bias", {8}, 3);
  Parameter* all[] = {up.get(), down.get(), bias.get()};
  const auto mlp = [&](Context& cx, const Tensors& x) {
    const Tensor hidden = ops::gelu(cx, ops::linear(cx, x[0], *up, bias.get()));
    return Tensors{ops::linear(cx, hidden, *down, nullptr)};
  };
  EXPECT_EQ(gradient_check(cx_, mlp, {random({5, 4}, 4)}, all), "");
  const auto again = [&](Context& cx, const Tensors& x) { return ops::recompute(cx, x, mlp); };
  EXPECT_EQ(gradient_check(cx_, again, {random({5, 4}, 4)}, all), "");
}

/// x · weight with an input gradient that is `input` times the right one.
Tensors product(Context& cx, const Tensor& x, Parameter& weight, double input, double kept) {
  MultiplyArgs args{x.arg(), weight.compute.arg(), {}};
  Tensor y = ops::run(cx, args)[0];
  if (!cx.recording()) return {y};
  const auto times = [](Context& c, const Tensor& g, const Tensor& other, double factor) {
    MultiplyArgs back{g.arg(), other.arg(), {}};
    Tensor made = ops::run(c, back)[0];
    ScaleArgs scale{made.arg(), made.arg(), factor};
    ops::run(c, scale);
    return made;
  };
  cx.tape->record(
      "product",
      std::array{x},
      std::array{&y},
      [=, &weight](Context& c, Gradients& g) {
        g.input(0, times(c, g.output(0), weight.compute, input));
      },
      [=, &weight, x = x.with_var({})](Context& c, Gradients& g) {
        const Tensor gradient = times(c, g.output(0), x, 1);
        // The right sum when kept is 1; overwrites what was there when it is 0.
        ScaleArgs keep{weight.grad.arg(), weight.grad.arg(), kept};
        ops::run(c, keep);
        AddArgs sum{weight.grad.arg(), gradient.arg(), weight.grad.arg()};
        ops::run(c, sum);
      });
  return {y};
}

TEST_F(Gradient, CheckFindsMistakes) {
  const auto weight = parameter("weight", {6}, 1);
  Parameter* all[] = {weight.get()};
  const Tensors x = {random({6}, 2)};
  const auto check = [&](double input, double kept) {
    return gradient_check(
        cx_,
        [&](Context& cx, const Tensors& in) { return product(cx, in[0], *weight, input, kept); },
        x,
        all);
  };
  EXPECT_EQ(check(1, 1), "");
  EXPECT_THAT(check(1.00001, 1), ::testing::HasSubstr("gradient of input 0: element 0"));
  EXPECT_THAT(check(1, 0), ::testing::HasSubstr("gradient of \"weight\""));
}

}  // namespace gradient_test
}  // namespace tessera
