// The modules column_linear and row_linear on several ranks against a plain matrix product.
#include "tensor_parallel_support.hpp"

namespace tessera::testing {
namespace linear_modules_test {

constexpr i64 kRows = 4, kIn = 8, kOut = 12;

// y = x Wᵀ + b and its gradients, in double.
struct Reference {
  Values x = random_values(kRows * kIn, 1), weight = random_values(kOut * kIn, 2),
         bias = random_values(kOut, 3), gradient = random_values(kRows * kOut, 4);
  Values y = Values(kRows * kOut), x_grad = Values(kRows * kIn), weight_grad = Values(kOut * kIn),
         bias_grad = Values(kOut);

  Reference() {
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t o = 0; o < kOut; ++o) {
        double sum = bias[o];
        const double g = gradient[r * kOut + o];
        bias_grad[o] += g;
        for (std::size_t i = 0; i < kIn; ++i) {
          sum += x[r * kIn + i] * weight[o * kIn + i];
          x_grad[r * kIn + i] += g * weight[o * kIn + i];
          weight_grad[o * kIn + i] += g * x[r * kIn + i];
        }
        y[r * kOut + o] = sum;
      }
    }
  }
};

void expect_near(const Tensor& tensor, const Values& want, std::string_view what) {
  const Values got = read(tensor);
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-12) << what << " element " << i;
  }
}

class LinearModules : public ::testing::TestWithParam<i64> {
 protected:
  static Pass pass(LocalRank& rank, Module& module, const Tensor& x, const Tensor& gradient) {
    rank.group(Axis::tensor).reset_counters();
    return run_pass(
        rank, x, gradient, [&](Context& cx, const Tensor& leaf) { return module(cx, leaf); });
  }
  static i64 calls(LocalRank& rank, CollectiveKind kind) {
    return rank.group(Axis::tensor).counters()[kind].calls;
  }
  static i64 when_cut(i64 calls) { return GetParam() == 1 ? 0 : calls; }
  static void run(const std::function<void(LocalRank&)>& body) {
    local_world().run(tensor_ranks(GetParam(), DType::fp64), body);
  }
  static void run_sequence_parallel(const std::function<void(LocalRank&)>& body) {
    LocalWorldOptions options = tensor_ranks(GetParam(), DType::fp64);
    options.sequence_parallel = true;
    local_world().run(options, body);
  }
  static i64 kept_rows() { return kRows / GetParam(); }
  static Values kept(LocalRank& rank, const Values& matrix, i64 columns) {
    return rows_of(matrix, columns, rank.index() * kept_rows(), kept_rows());
  }
  const Reference all_;
};

TEST_P(LinearModules, Column) {
  for (const bool gather : {false, true}) {
    SCOPED_TRACE(gather);
    run([&](LocalRank& rank) {
      const i64 part = kOut / GetParam(), first = rank.index() * part;
      const auto module = rank.build<Module>(
          "up",
          "column_linear",
          {{"in", kIn}, {"out", kOut}, {"sections", Value::Array{}}, {"gather_output", gather}});
      set_values(rank, "up.weight", rows_of(all_.weight, kIn, first, part));
      set_values(rank, "up.bias", rows_of(all_.bias, 1, first, part));
      const Values mine = columns_of(all_.gradient, kOut, first, part);
      // After a gather every rank has the whole gradient, of which it takes its part.
      const Tensor gradient =
          gather ? rank.tensor({kRows, kOut}, all_.gradient) : rank.tensor({kRows, part}, mine);
      const Pass done = pass(rank, *module, rank.tensor({kRows, kIn}, all_.x), gradient);
      expect_near(done.result, gather ? all_.y : columns_of(all_.y, kOut, first, part), "y");
      expect_near(done.input_gradient, all_.x_grad, "x gradient");
      expect_near(rank.parameter("up.weight").grad,
                  rows_of(all_.weight_grad, kIn, first, part),
                  "weight gradient");
      expect_near(
          rank.parameter("up.bias").grad, rows_of(all_.bias_grad, 1, first, part), "bias gradient");
      EXPECT_EQ(calls(rank, CollectiveKind::all_gather), gather ? when_cut(1) : 0);
      EXPECT_EQ(calls(rank, CollectiveKind::all_reduce), when_cut(1)) << "of the x gradient";
    });
  }
}

TEST_P(LinearModules, Row) {
  for (const bool parallel : {true, false}) {
    SCOPED_TRACE(parallel);
    run([&](LocalRank& rank) {
      const i64 part = kIn / GetParam(), first = rank.index() * part;
      const auto module = rank.build<Module>(
          "down", "row_linear", {{"in", kIn}, {"out", kOut}, {"input_is_parallel", parallel}});
      set_values(rank, "down.weight", columns_of(all_.weight, kIn, first, part));
      set_values(rank, "down.bias", all_.bias);
      const Tensor x = parallel ? rank.tensor({kRows, part}, columns_of(all_.x, kIn, first, part))
                                : rank.tensor({kRows, kIn}, all_.x);
      const Pass done = pass(rank, *module, x, rank.tensor({kRows, kOut}, all_.gradient));
      expect_near(done.result, all_.y, "y");
      expect_near(done.input_gradient,
                  parallel ? columns_of(all_.x_grad, kIn, first, part) : all_.x_grad,
                  "x gradient");
      expect_near(rank.parameter("down.weight").grad,
                  columns_of(all_.weight_grad, kIn, first, part),
                  "weight gradient");
      expect_near(rank.parameter("down.bias").grad, all_.bias_grad, "bias gradient");
      EXPECT_EQ(calls(rank, CollectiveKind::all_reduce), when_cut(1));
      EXPECT_EQ(calls(rank, CollectiveKind::all_gather), parallel ? 0 : when_cut(1));
    });
  }
}

TEST_P(LinearModules, ColumnOfKeptRows) {
  for (const bool gather : {false, true}) {
    SCOPED_TRACE(gather);
    run_sequence_parallel([&](LocalRank& rank) {
      const i64 part = kOut / GetParam(), first = rank.index() * part;
      const auto module = rank.build<Module>(
          "up",
          "column_linear",
          {{"in", kIn}, {"out", kOut}, {"sections", Value::Array{}}, {"gather_output", gather}});
      set_values(rank, "up.weight", rows_of(all_.weight, kIn, first, part));
      set_values(rank, "up.bias", rows_of(all_.bias, 1, first, part));
      const Tensor gradient =
          gather ? rank.tensor({kRows, kOut}, all_.gradient)
                 : rank.tensor({kRows, part}, columns_of(all_.gradient, kOut, first, part));
      const Tensor x = rank.tensor({kept_rows(), kIn}, kept(rank, all_.x, kIn));
      const Pass done = pass(rank, *module, x, gradient);
      expect_near(done.result, gather ? all_.y : columns_of(all_.y, kOut, first, part), "y");
      expect_near(done.input_gradient, kept(rank, all_.x_grad, kIn), "x gradient");
      expect_near(rank.parameter("up.weight").grad,
                  rows_of(all_.weight_grad, kIn, first, part),
                  "weight gradient");
      expect_near(
          rank.parameter("up.bias").grad, rows_of(all_.bias_grad, 1, first, part), "bias gradient");
      EXPECT_EQ(calls(rank, CollectiveKind::all_gather), when_cut(gather ? 3 : 2));
      EXPECT_EQ(calls(rank, CollectiveKind::reduce_scatter), when_cut(1)) << "of the x gradient";
      EXPECT_EQ(calls(rank, CollectiveKind::all_reduce), 0);
    });
  }
}

TEST_P(LinearModules, RowToKeptRows) {
  for (const bool parallel : {true, false}) {
    SCOPED_TRACE(parallel);
    run_sequence_parallel([&](LocalRank& rank) {
      const i64 part = kIn / GetParam(), first = rank.index() * part;
      const auto module = rank.build<Module>(
          "down", "row_linear", {{"in", kIn}, {"out", kOut}, {"input_is_parallel", parallel}});
      set_values(rank, "down.weight", columns_of(all_.weight, kIn, first, part));
      set_values(rank, "down.bias", all_.bias);
      const Tensor x = parallel ? rank.tensor({kRows, part}, columns_of(all_.x, kIn, first, part))
                                : rank.tensor({kRows, kIn}, all_.x);
      const Values mine = kept(rank, all_.gradient, kOut);
      const Pass done = pass(rank, *module, x, rank.tensor({kept_rows(), kOut}, mine));
      expect_near(done.result, kept(rank, all_.y, kOut), "y");
      expect_near(done.input_gradient,
                  parallel ? columns_of(all_.x_grad, kIn, first, part) : all_.x_grad,
                  "x gradient");
      expect_near(rank.parameter("down.weight").grad,
                  columns_of(all_.weight_grad, kIn, first, part),
                  "weight gradient");
      const Parameter& bias = rank.parameter("down.bias");
      Values bias_grad(kOut);  // of the kept rows: the others' parts are summed once a step
      for (std::size_t i = 0; i < mine.size(); ++i) bias_grad[i % kOut] += mine[i];
      expect_near(bias.grad, bias_grad, "bias gradient");
      EXPECT_EQ(bias.layout.partial().size(), GetParam() > 1 ? 1U : 0U);
      EXPECT_EQ(calls(rank, CollectiveKind::reduce_scatter), when_cut(1));
      EXPECT_EQ(calls(rank, CollectiveKind::all_gather), when_cut(parallel ? 1 : 2));
      EXPECT_EQ(calls(rank, CollectiveKind::all_reduce), 0);
    });
  }
}

// Fused queries, keys and values: every rank holds its part of each.
TEST_P(LinearModules, SectionsAreCutOneByOne) {
  run([&](LocalRank& rank) {
    const auto module = rank.build<Module>(
        "qkv", "column_linear", {{"in", kIn}, {"out", kOut}, {"sections", Value::Array{4, 4, 4}}});
    const i64 part = 4 / GetParam();
    Values weight, expected;
    for (const i64 section : {0, 4, 8}) {
      const Values rows = rows_of(all_.weight, kIn, section + rank.index() * part, part);
      weight.insert(weight.end(), rows.begin(), rows.end());
    }
    set_values(rank, "qkv.weight", weight);
    set_values(rank, "qkv.bias", Values(static_cast<std::size_t>(3 * part)));
    const Tensor y = (*module)(rank.context(), rank.tensor({kRows, kIn}, all_.x));
    for (i64 row = 0; row < kRows; ++row) {
      for (const i64 section : {0, 4, 8}) {
        for (i64 i = 0; i < part; ++i) {
          const i64 column = section + rank.index() * part + i;
          expected.push_back(all_.y[static_cast<std::size_t>(row * kOut + column)] -
                             all_.bias[static_cast<std::size_t>(column)]);
        }
      }
    }
    expect_near(y, expected, "y");
  });
}

TEST_P(LinearModules, InitialValuesDoNotDependOnTheLayout) {
  Values whole;
  local_world().run(tensor_ranks(1, DType::fp64), [&](LocalRank& rank) {
    rank.build<Module>(
        "up", "column_linear", {{"in", kIn}, {"out", kOut}, {"sections", Value::Array{}}});
    whole = read(rank.parameter("up.weight").main);
  });
  run([&](LocalRank& rank) {
    rank.build<Module>(
        "up", "column_linear", {{"in", kIn}, {"out", kOut}, {"sections", Value::Array{}}});
    const i64 part = kOut / GetParam();
    EXPECT_EQ(read(rank.parameter("up.weight").main),
              rows_of(whole, kIn, rank.index() * part, part));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, LinearModules, ::testing::Values(1, 2, 4));

}  // namespace linear_modules_test
}  // namespace tessera::testing
