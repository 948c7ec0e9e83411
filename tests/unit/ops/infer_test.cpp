// What the operations accept, and how they say what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/device/core_ops.hpp"
#include "tests/common/error_of.hpp"

namespace tessera {
namespace infer_test {

/// A dense tensor with an address that nobody follows.
TensorArg dense(const Shape& shape, DType dtype = DType::fp32) {
  TensorArg arg;
  arg.address = reinterpret_cast<void*>(4096);  // NOLINT(performance-no-int-to-ptr)
  arg.dtype = dtype;
  arg.rank = shape.rank();
  const Shape strides = dense_strides(shape);
  for (int i = 0; i < shape.rank(); ++i) {
    arg.shape[i] = shape[i];
    arg.strides[i] = strides[i];
  }
  return arg;
}

std::string text(const TensorArg& arg) {
  Shape shape, strides;
  for (int i = 0; i < arg.rank; ++i) {
    shape.push_back(arg.shape[i]);
    strides.push_back(arg.strides[i]);
  }
  return fmt::format("{} {} {}", dtype_name(arg.dtype), shape.text(), strides.text());
}

template <class Args>
std::string error(Args args) {
  return testing::error_of([&] { Args::infer(args); });
}

TEST(Infer, DescribesOutputs) {
  MatmulArgs matmul;
  matmul.a = dense({5, 3});
  matmul.b = dense({5, 7});
  matmul.transpose_a = true;
  MatmulArgs::infer(matmul);
  EXPECT_EQ(text(matmul.out), "fp32 [3, 7] [7, 1]");

  LayerNormArgs norm;
  norm.x = dense({4, 6}, DType::bf16);
  norm.weight = norm.bias = dense({6}, DType::bf16);
  LayerNormArgs::infer(norm);
  EXPECT_EQ(text(norm.out), "bf16 [4, 6] [6, 1]");
  EXPECT_EQ(text(norm.mean), "fp32 [4] [1]");
  EXPECT_EQ(text(norm.rstd), "fp32 [4] [1]");

  norm = {};
  norm.centred = false;
  norm.x = dense({4, 6}, DType::bf16);
  norm.weight = dense({6}, DType::bf16);
  LayerNormArgs::infer(norm);
  EXPECT_EQ(text(norm.out), "bf16 [4, 6] [6, 1]");
  EXPECT_EQ(norm.mean.rank, 0);
  EXPECT_EQ(text(norm.rstd), "fp32 [4] [1]");

  AttentionArgs attention;
  attention.q = dense({2, 5, 4, 8}, DType::fp64);
  attention.k = attention.v = dense({2, 9, 2, 8}, DType::fp64);
  AttentionArgs::infer(attention);
  EXPECT_EQ(text(attention.out), "fp64 [2, 5, 4, 8] [160, 32, 8, 1]");
  EXPECT_EQ(text(attention.lse), "fp64 [2, 4, 5] [20, 5, 1]");

  CopyArgs copy;
  copy.x = dense({2, 3}, DType::i64);
  CopyArgs::infer(copy);
  EXPECT_EQ(text(copy.out), "i64 [2, 3] [3, 1]");
}

TEST(Infer, RowsThatAreNotCentredHaveNeitherMeanNorBias) {
  LayerNormArgs norm;
  norm.x = dense({4, 6});
  norm.weight = dense({6});
  EXPECT_EQ(error(norm),
            "layernorm: bias must be fp32 [6], is absent (x fp32 [4, 6], weight fp32 [6], bias "
            "absent, out absent, mean absent, rstd absent)");
  norm.centred = false;
  EXPECT_EQ(error(norm), "");
  norm.bias = dense({6});
  EXPECT_THAT(error(norm),
              ::testing::StartsWith("layernorm: bias must be absent where rows are not centred ("));
  LayerNormBackwardAddArgs back;
  back.grad = back.x = back.sum = dense({4, 6});
  back.weight = dense({6});
  back.rstd = dense({4});
  EXPECT_THAT(error(back), ::testing::HasSubstr("mean must be fp32 [4], is absent"));
  back.centred = false;
  EXPECT_EQ(error(back), "");
  back.mean = dense({4});
  EXPECT_THAT(error(back), ::testing::HasSubstr("mean must be absent where rows are not centred"));
  LayerNormWeightArgs weight;
  weight.grad = weight.x = dense({4, 6});
  weight.rstd = dense({4});
  weight.weight_grad = weight.bias_grad = dense({6});
  weight.centred = false;
  EXPECT_THAT(error(weight),
              ::testing::HasSubstr("bias_grad must be absent where rows are not centred"));
}

TEST(Infer, ATableOfAnglesFitsTheHeads) {
  RotaryArgs rotary;
  rotary.x = dense({3, 2, 6}, DType::bf16);
  rotary.positions = dense({3}, DType::i64);
  rotary.table = dense({8, 2, 3});
  RotaryArgs::infer(rotary);
  EXPECT_EQ(text(rotary.out), "bf16 [3, 2, 6] [12, 6, 1]");
  rotary.out = {};
  rotary.table = dense({8, 2, 4});
  EXPECT_THAT(error(rotary),
              ::testing::HasSubstr("4 pairs of features turn, and a head has 6 features"));
  rotary.table = dense({0, 2, 3});
  EXPECT_THAT(error(rotary), ::testing::HasSubstr("the table has no positions"));
  rotary.table = dense({8, 2, 3}, DType::bf16);
  EXPECT_THAT(error(rotary), ::testing::HasSubstr("table must be fp32"));
}

TEST(Infer, ErrorsNameOperationTensorAndShapes) {
  EXPECT_EQ(
      error(AddArgs{dense({2, 3}), dense({2, 4}), {}}),
      "add: b must be fp32 [2, 3], is fp32 [2, 4] (a fp32 [2, 3], b fp32 [2, 4], out absent)");
  EXPECT_EQ(error(GeluArgs{dense({2}, DType::i64), {}}),
            "gelu: x must have a floating dtype, is i64 [2] (x i64 [2], out absent)");
  TensorArg column = dense({4, 2});
  column.shape[1] = 1;
  column.strides[0] = 2;
  EXPECT_THAT(error(ScaleArgs{column, {}}),
              ::testing::HasSubstr("x must be dense, is fp32 [4, 1] with strides [2, 1]"));
  MatmulArgs matmul;
  matmul.a = dense({2, 3});
  matmul.b = dense({4, 5});
  matmul.transpose_b = true;
  EXPECT_EQ(error(matmul),
            "matmul: the inner sizes 3 of a and 5 of b (transposed) differ "
            "(a fp32 [2, 3], b fp32 [4, 5], bias absent, packed absent, out absent)");
}

TEST(Infer, AccumulatingNeedsAnOutput) {
  using ::testing::HasSubstr;
  MatmulArgs matmul;
  matmul.a = dense({2, 3});
  matmul.b = dense({3, 5});
  matmul.accumulate = true;
  EXPECT_THAT(error(matmul), HasSubstr("accumulates into out, which must be given"));
  matmul.out = dense({2, 5});
  EXPECT_EQ(error(matmul), "");
  matmul.bias = dense({5});
  EXPECT_THAT(error(matmul), HasSubstr("a bias cannot be added when accumulating"));
  EXPECT_THAT(error(ColumnSumArgs{dense({2, 3}), {}}), HasSubstr("out is updated in place"));
  EXPECT_THAT(error(SumSquaresArgs{dense({2, 3}), {}, {}}), HasSubstr("out is updated in place"));
}

TEST(Infer, WrongConstantsAreErrors) {
  using ::testing::HasSubstr;
  DropoutArgs dropout;
  dropout.x = dense({2, 3});
  dropout.p = 0.5;
  EXPECT_THAT(error(dropout), HasSubstr("row_ids must be given when p is not 0"));
  dropout.row_ids = dense({2}, DType::i64);
  EXPECT_EQ(error(dropout), "");
  dropout.p = 1;
  EXPECT_THAT(error(dropout), HasSubstr("p must be in [0, 1), is 1"));
  AttentionArgs attention;
  attention.q = dense({1, 2, 3, 4});
  attention.k = attention.v = dense({1, 2, 2, 4});
  EXPECT_THAT(error(attention), HasSubstr("the 3 heads of q must be a multiple of the 2"));
  attention.q = attention.k = dense({1, 2, 2, 4});
  attention.v = dense({1, 3, 2, 6});
  EXPECT_THAT(error(attention), HasSubstr("v must be fp32 [1, 2, 2, 6], is fp32 [1, 3, 2, 6]"));
  attention.v = dense({1, 2, 2, 6});
  attention.spec.window = -1;
  EXPECT_THAT(error(attention), HasSubstr("the window is -1"));
  attention.spec = {.causal = false, .window = 3};
  EXPECT_THAT(error(attention), HasSubstr("causal queries or `last` must be given"));
  attention.last = dense({1, 3}, DType::i32);
  EXPECT_THAT(error(attention), HasSubstr("last must be i32 [1, 2], is i32 [1, 3]"));
  CrossEntropyMaxArgs max;
  max.logits = dense({2, 3});
  max.valid = 4;
  EXPECT_THAT(error(max), HasSubstr("valid must be in [0, 3], is 4"));
  SgdArgs sgd;
  sgd.scalars = dense({step_scalar::kCount}, DType::fp64);
  sgd.ranges = dense({1, 4}, DType::i64);
  sgd.hyper = dense({1, 2}, DType::fp64);
  sgd.main = sgd.grad = dense({4});
  sgd.momentum = 0.9;
  EXPECT_THAT(error(sgd), HasSubstr("momentum is 0.9 but there is no momentum_buffer"));
}

TEST(Infer, WrongRoutersAreErrors) {
  using ::testing::HasSubstr;
  const auto router = [](i64 experts, const RouterSpec& spec) {
    TopkExpertsArgs args;
    args.logits = dense({2, experts}, DType::bf16);
    args.spec = spec;
    return error(args);
  };
  EXPECT_EQ(router(8, {.top_k = 8}), "");
  EXPECT_THAT(router(2, {.top_k = 3}), HasSubstr("topk_experts: top_k: 3 of 2 experts"));
  EXPECT_THAT(router(8, {.top_k = 2, .groups = 3}),
              HasSubstr("8 experts do not form 3 equal groups"));
  EXPECT_THAT(router(8, {.top_k = 5, .groups = 4, .group_top_k = 2}),
              HasSubstr("top_k: 5 is not a multiple of group_top_k = 2"));
  EXPECT_THAT(router(8, {.top_k = 6, .groups = 4, .group_top_k = 2}),
              HasSubstr("top_k: 6 of 4 experts in 2 groups"));
  EXPECT_THAT(router(2000, {}), HasSubstr("2000 experts; between 1 and 1024 are possible"));
  RouterWeightsArgs weights;
  weights.logits = dense({2, 1025});
  weights.experts = dense({2, 1}, DType::i32);
  EXPECT_THAT(error(weights), HasSubstr("1025 experts; between 1 and 1024 are possible"));
  weights.logits = dense({2, 1024});
  weights.experts = dense({2, 1025}, DType::i32);
  EXPECT_THAT(error(weights), HasSubstr("1025 choices of a row; between 1 and 1024 are possible"));
  BalanceLossArgs balance;
  balance.logits = dense({2, 1025});
  balance.counts = dense({1, 1025}, DType::i64);
  balance.inverse_weight = dense({1}, DType::fp64);
  EXPECT_THAT(error(balance), HasSubstr("1025 experts; between 1 and 1024 are possible"));
  ZLossArgs z;
  z.logits = dense({2, 50304});
  z.inverse_weight = dense({1}, DType::fp64);
  EXPECT_THAT(error(z), HasSubstr("50304 experts; between 1 and 1024 are possible"));
  GroupedMatmulArgs product;
  product.a = dense({5, 3});
  product.b = dense({2, 4, 6});
  product.counts = dense({2}, DType::i64);
  EXPECT_THAT(error(product), HasSubstr("b must be fp32 [2, 3, 6], is fp32 [2, 4, 6]"));
  WeightedActivationArgs odd;
  odd.x = dense({2, 3});
  EXPECT_THAT(error(odd), HasSubstr("x must hold gate and up, 2f features"));
  ExpertCountsArgs counts;
  counts.experts = dense({2, 3}, DType::i64);
  counts.all = 4;
  EXPECT_THAT(error(counts), HasSubstr("experts must be i32 [2, 3], is i64 [2, 3]"));
}

TEST(Infer, InputWithoutMemoryIsAnError) {
  TensorArg lost = dense({3});
  lost.address = nullptr;
  EXPECT_THAT(error(GeluArgs{lost, {}}), ::testing::HasSubstr("x has no memory"));
}

}  // namespace infer_test
}  // namespace tessera
