// The worked examples of tensor parallelism, with ranks as threads: matrices cut by rows and by
// columns, the MLP both ways round, the vocabulary cut, the conjugate pairs.
#include "common/error_of.hpp"
#include "tensor_parallel_support.hpp"
#include "tessera/device/host_reduce.hpp"

namespace tessera::testing {
namespace tensor_parallel_test {

// X [2, 4], A [4, 2], B [2, 4]
const Values kX = {0, 0, 1, 1, 0, 0, 1, 1};
const Values kA = {0, 0, 0, 0, 1, 2, 1, 2};
const Values kB = {0, 0, 0, 0, 1, 1, 1, 1};
const Values kY = {2, 4, 2, 4};              // X A
const Values kZ = {4, 4, 4, 4, 4, 4, 4, 4};  // X A B

Tensor matmul(LocalRank& rank, const Tensor& a, const Tensor& b) {
  MatmulArgs args;
  args.a = a.arg();
  args.b = b.arg();
  return ops::run(rank.context(), args)[0];
}

i64 calls(LocalRank& rank, CollectiveKind kind) {
  return rank.group(Axis::tensor).counters()[kind].calls;
}

TEST(WorkedExample, RowSplit) {
  local_world().run(tensor_ranks(2), [](LocalRank& rank) {
    Context& cx = rank.context();
    ProcessGroup& group = rank.group(Axis::tensor);
    const Tensor x = collectives::scatter(cx, rank.tensor({2, 4}, kX), group, "x");
    EXPECT_EQ(read(x), rank.index() == 0 ? Values({0, 0, 0, 0}) : Values({1, 1, 1, 1}));
    const Tensor a = rank.tensor({2, 2}, rows_of(kA, 2, 2 * rank.index(), 2));
    Tensor y = matmul(rank, x, a);
    EXPECT_EQ(read(y), rank.index() == 0 ? Values({0, 0, 0, 0}) : kY);
    y = collectives::reduce(cx, std::move(y), group, "y");
    EXPECT_EQ(read(y), kY);
    EXPECT_EQ(calls(rank, CollectiveKind::all_reduce), 1);
  });
}

TEST(WorkedExample, ColumnSplit) {
  local_world().run(tensor_ranks(2), [](LocalRank& rank) {
    const Tensor a = rank.tensor({4, 1}, columns_of(kA, 2, rank.index(), 1));
    const Tensor part = matmul(rank, rank.tensor({2, 4}, kX), a);
    EXPECT_EQ(read(part), rank.index() == 0 ? Values({2, 2}) : Values({4, 4}));
    const Tensor y = collectives::gather(rank.context(), part, rank.group(Axis::tensor), "y");
    EXPECT_EQ(y.shape(), Shape({2, 2}));
    EXPECT_EQ(read(y), kY);
    EXPECT_EQ(calls(rank, CollectiveKind::all_gather), 1);
    EXPECT_EQ(calls(rank, CollectiveKind::all_reduce), 0);
  });
}

TEST(WorkedExample, ColumnThenRow) {
  local_world().run(tensor_ranks(2), [](LocalRank& rank) {
    const Tensor a = rank.tensor({4, 1}, columns_of(kA, 2, rank.index(), 1));
    const Tensor b = rank.tensor({1, 4}, rows_of(kB, 4, rank.index(), 1));
    const Tensor y = matmul(rank, rank.tensor({2, 4}, kX), a);
    Tensor z = matmul(rank, y, b);
    EXPECT_EQ(read(z), rank.index() == 0 ? Values(8, 0) : kZ);
    z = collectives::reduce(rank.context(), std::move(z), rank.group(Axis::tensor), "z");
    EXPECT_EQ(read(z), kZ);
    EXPECT_EQ(calls(rank, CollectiveKind::all_reduce), 1);
    EXPECT_EQ(calls(rank, CollectiveKind::all_gather), 0);
  });
}

// One synchronisation more than the other way round. The parts are joined along features.
TEST(WorkedExample, RowThenColumn) {
  local_world().run(tensor_ranks(2), [](LocalRank& rank) {
    Context& cx = rank.context();
    ProcessGroup& group = rank.group(Axis::tensor);
    const Tensor x = rank.tensor({2, 2}, columns_of(kX, 4, 2 * rank.index(), 2));
    const Tensor a = rank.tensor({2, 2}, rows_of(kA, 2, 2 * rank.index(), 2));
    const Tensor y = collectives::reduce(cx, matmul(rank, x, a), group, "y");
    EXPECT_EQ(read(y), kY);
    const Tensor b = rank.tensor({2, 2}, columns_of(kB, 4, 2 * rank.index(), 2));
    const Tensor z = collectives::gather(cx, matmul(rank, y, b), group, "z");
    EXPECT_EQ(z.shape(), Shape({2, 4}));
    EXPECT_EQ(read(z), kZ);
    EXPECT_EQ(calls(rank, CollectiveKind::all_reduce), 1);
    EXPECT_EQ(calls(rank, CollectiveKind::all_gather), 1);
  });
}

TEST(WorkedExample, VocabularyCutOverRanks) {
  for (const i64 ranks : {1, 2, 4}) {
    SCOPED_TRACE(ranks);
    local_world().run(tensor_ranks(ranks), [ranks](LocalRank& rank) {
      const i64 vocab = 8, width = 3, local = vocab / ranks, first = rank.index() * local;
      const Values table = random_values(vocab * width, 3);
      auto parameter =
          Workbench(rank.device())
              .parameter("table", rank.tensor({local, width}, rows_of(table, width, first, local)));
      const Values ids = {7, 0, 3, 3, 4};
      const Tensor gradient = rank.tensor({5, width}, random_values(5 * width, 4));
      Tape tape;
      Context cx = rank.context();
      cx.tape = &tape;
      const Tape::FrameId frame = tape.begin();
      Tensor x = ops::embedding(cx, rank.tensor({5}, DType::i64, ids), *parameter, first);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const bool here =
            ids[i] >= static_cast<double>(first) && ids[i] < static_cast<double>(first + local);
        if (!here) {
          EXPECT_EQ(rows_of(read(x), width, static_cast<i64>(i), 1), Values(3, 0));
        }
      }
      x = collectives::reduce(cx, std::move(x), rank.group(Axis::tensor), "embedding");
      tape.end({&x, 1});
      for (std::size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(rows_of(read(x), width, static_cast<i64>(i), 1),
                  rows_of(table, width, static_cast<i64>(ids[i]), 1));
      }
      std::vector<Tape::Gradient> gradients(1);
      gradients[0].tensor = gradient;
      tape.backward(cx, frame, Half::both, gradients);
      Values expected(static_cast<std::size_t>(vocab * width), 0);
      const Values g = read(gradient);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        for (std::size_t j = 0; j < 3; ++j) {
          float sum = static_cast<float>(expected[static_cast<std::size_t>(ids[i]) * 3 + j]);
          sum += static_cast<float>(g[i * 3 + j]);
          expected[static_cast<std::size_t>(ids[i]) * 3 + j] = sum;
        }
      }
      EXPECT_EQ(read(parameter->grad), rows_of(expected, width, first, local));
    });
  }
}

// The conjugate pairs: what is the identity in one direction communicates in the other.
class ConjugatePairs : public ::testing::TestWithParam<i64> {
 protected:
  static constexpr i64 kRows = 3, kFeatures = 8;
  static Values of_rank(i64 rank, u64 what) {
    return random_values(kRows * kFeatures, 100 * what + static_cast<u64>(rank));
  }
  // Sums by the helper that the group uses, which fixes the order.
  static Values sum_of_ranks(u64 what) {
    std::vector<std::vector<float>> ranks;
    std::vector<const void*> sources;
    for (i64 rank = 0; rank < GetParam(); ++rank) {
      const Values values = of_rank(rank, what);
      sources.push_back(ranks.emplace_back(values.begin(), values.end()).data());
    }
    std::vector<float> sum(ranks[0].size());
    reduce_elements(
        DType::fp32, ReduceOp::sum, sources, {sum.data()}, static_cast<i64>(sum.size()));
    return {sum.begin(), sum.end()};
  }
  static Tensor whole(LocalRank& rank, const Values& values) {
    return rank.tensor({kRows, kFeatures}, values);
  }
  static void run(const std::function<void(LocalRank&, ProcessGroup&)>& body) {
    local_world().run(tensor_ranks(GetParam()),
                      [&](LocalRank& rank) { body(rank, rank.group(Axis::tensor)); });
  }
  static i64 part() { return kFeatures / GetParam(); }
};

TEST_P(ConjugatePairs, CopyIsIdentityThenAllReduce) {
  run([](LocalRank& rank, ProcessGroup& group) {
    const Values x = random_values(kRows * kFeatures, 1);
    const Pass pass = run_pass(rank,
                               whole(rank, x),
                               whole(rank, of_rank(rank.index(), 2)),
                               [&](Context& cx, const Tensor& leaf) {
                                 return collectives::copy(cx, leaf, group, "copy");
                               });
    EXPECT_EQ(read(pass.result), x);
    EXPECT_EQ(read(pass.input_gradient), sum_of_ranks(2));
  });
}

TEST_P(ConjugatePairs, ReduceIsAllReduceThenIdentity) {
  run([](LocalRank& rank, ProcessGroup& group) {
    const Values gradient = of_rank(rank.index(), 4);
    const Pass pass = run_pass(rank,
                               whole(rank, of_rank(rank.index(), 3)),
                               whole(rank, gradient),
                               [&](Context& cx, const Tensor& leaf) {
                                 return collectives::reduce(cx, leaf, group, "reduce");
                               });
    EXPECT_EQ(read(pass.result), sum_of_ranks(3));
    EXPECT_EQ(read(pass.input_gradient), gradient);
  });
}

TEST_P(ConjugatePairs, ScatterCutsThenGathers) {
  run([](LocalRank& rank, ProcessGroup& group) {
    const Values x = random_values(kRows * kFeatures, 5);
    const Values gradients = random_values(kRows * kFeatures, 6);
    const i64 first = rank.index() * part();
    const Pass pass =
        run_pass(rank,
                 whole(rank, x),
                 rank.tensor({kRows, part()}, columns_of(gradients, kFeatures, first, part())),
                 [&](Context& cx, const Tensor& leaf) {
                   return collectives::scatter(cx, leaf, group, "scatter");
                 });
    EXPECT_EQ(read(pass.result), columns_of(x, kFeatures, first, part()));
    EXPECT_EQ(read(pass.input_gradient), gradients);
  });
}

TEST_P(ConjugatePairs, GatherJoinsThenCuts) {
  run([](LocalRank& rank, ProcessGroup& group) {
    const Values x = random_values(kRows * kFeatures, 7);
    const Values gradient = of_rank(rank.index(), 8);
    const i64 first = rank.index() * part();
    const Pass pass =
        run_pass(rank,
                 rank.tensor({kRows, part()}, columns_of(x, kFeatures, first, part())),
                 whole(rank, gradient),
                 [&](Context& cx, const Tensor& leaf) {
                   return collectives::gather(cx, leaf, group, "gather");
                 });
    EXPECT_EQ(read(pass.result), x);
    EXPECT_EQ(read(pass.input_gradient), columns_of(gradient, kFeatures, first, part()));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ConjugatePairs, ::testing::Values(1, 2, 4));

TEST(ConjugatePair, FeaturesThatDoNotDivideAreRefused) {
  const auto run = [] {
    local_world().run(tensor_ranks(2), [](LocalRank& rank) {
      collectives::scatter(
          rank.context(), rank.tensor({1, 3}, {1, 2, 3}), rank.group(Axis::tensor), "x");
    });
  };
  EXPECT_EQ(error_of([&] { run(); }), "3 features do not divide among the 2 ranks of tp[0,1]");
}

}  // namespace tensor_parallel_test
}  // namespace tessera::testing
