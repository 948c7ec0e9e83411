// Collectives along the rows, and the linear that keeps only this rank's rows, with gradients by
// finite differences over all ranks together.
#include <gmock/gmock.h>

#include "tensor_parallel_support.hpp"

namespace tessera::testing {
namespace sequence_collectives_test {

constexpr i64 kRows = 8, kIn = 3, kOut = 5;  // rows over all ranks, output features on each

using Function = std::function<Tensor(Context&, const Tensor&)>;

// A loss over all ranks: the sum of every rank's result times weights of its own.
struct Loss {
  LocalRank& rank;
  const Function& function;
  Tensor x;        // of this rank
  Values weights;  // of this rank's result

  double value() const {
    const Values result = read(function(rank.context(), x));
    double sum = 0;
    for (std::size_t i = 0; i < result.size(); ++i) sum += weights[i] * result[i];
    const Tensor total = rank.tensor({1}, DType::fp64, {sum});
    rank.group(Axis::tensor)
        .all_reduce(*rank.context().stream, total, ReduceOp::sum, "loss")
        .wait(*rank.context().stream);
    return read(total)[0];
  }
};

struct Gradient {
  Values x;
  std::vector<Values> parameters;
};

// Between the halves, when they are apart, `between` is called.
Gradient backward(const Loss& loss,
                  const std::vector<Parameter*>& parameters,
                  bool apart,
                  const std::function<void()>& between = {}) {
  LocalRank& rank = loss.rank;
  for (const Parameter* p : parameters) {
    write(p->grad, Values(static_cast<std::size_t>(p->grad.elements()), 0));
  }
  Tape tape;
  Context cx = rank.context();
  cx.tape = &tape;
  Tensor leaf = loss.x.with_var(kNeedsGradient);
  const Tape::FrameId frame = tape.begin({&leaf, 1});
  Tensor result = loss.function(cx, leaf);
  tape.end({&result, 1});
  std::vector<Tape::Gradient> found(1);
  found[0].tensor = rank.tensor(result.shape(), loss.weights);
  result = leaf = {};
  tape.backward(cx, frame, apart ? Half::input : Half::both, found);
  found[0].pending.wait(*cx.stream);
  if (apart) {
    if (between) between();
    tape.backward(cx, frame, Half::weight, found);
  }
  Gradient gradient{read(found[0].tensor), {}};
  for (const Parameter* p : parameters) gradient.parameters.push_back(read(p->grad));
  return gradient;
}

// One member after the other changes its elements one by one, all compute the loss. The functions
// are linear in each element, so that differences of any width are exact up to rounding.
void expect_differences(const Loss& loss, const Tensor& variable, const Values& gradient) {
  for (i64 member = 0; member < loss.rank.mesh().world_size(); ++member) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const Values before = read(variable);
      double at[2];
      for (const int side : {0, 1}) {
        Values moved = before;
        if (member == loss.rank.index()) moved[i] += side == 0 ? 0.5 : -0.5;
        write(variable, moved);
        at[side] = loss.value();
      }
      write(variable, before);
      if (member == loss.rank.index()) {
        EXPECT_NEAR(gradient[i], at[0] - at[1], 1e-12) << "element " << i;
      }
    }
  }
}

class SequenceCollectives : public ::testing::TestWithParam<i64> {
 protected:
  static i64 part() { return kRows / GetParam(); }
  static void run(const std::function<void(LocalRank&)>& body) {
    local_world().run(tensor_ranks(GetParam(), DType::fp64), body);
  }
  static Values of_rank(LocalRank& rank, i64 count, u64 what) {
    return random_values(count, 100 * what + static_cast<u64>(rank.index()));
  }
  static void check(LocalRank& rank,
                    const Function& function,
                    const Shape& in,
                    i64 results,
                    const std::vector<Parameter*>& parameters = {}) {
    const Loss loss{rank,
                    function,
                    rank.tensor(in, of_rank(rank, in.elements(), 1)),
                    of_rank(rank, results, 2)};
    const Gradient together = backward(loss, parameters, false);
    const Gradient apart = backward(loss, parameters, true);
    EXPECT_EQ(together.x, apart.x);
    EXPECT_EQ(together.parameters, apart.parameters);
    expect_differences(loss, loss.x, together.x);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      expect_differences(loss, parameters[i]->compute, together.parameters[i]);
    }
  }
};

TEST_P(SequenceCollectives, GatherRowsJoinsThenReduceScatters) {
  run([](LocalRank& rank) {
    ProcessGroup& group = rank.group(Axis::tensor);
    const Values all = random_values(kRows * kIn, 3);
    const i64 first = rank.index() * part();
    const Tensor mine = rank.tensor({part(), kIn}, rows_of(all, kIn, first, part()));
    EXPECT_EQ(read(collectives::gather_rows(rank.context(), mine, group, "x")), all);
    check(
        rank,
        [&](Context& cx, const Tensor& x) { return collectives::gather_rows(cx, x, group, "x"); },
        {part(), kIn},
        kRows * kIn);
  });
}

TEST_P(SequenceCollectives, ReduceScatterRowsSumsPartsThenGathers) {
  run([](LocalRank& rank) {
    ProcessGroup& group = rank.group(Axis::tensor);
    const Tensor ones = rank.tensor({kRows, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
    Values expected;
    for (i64 i = 0; i < part(); ++i) {
      expected.push_back(static_cast<double>(GetParam() * (rank.index() * part() + i)));
    }
    EXPECT_EQ(read(collectives::reduce_scatter_rows(rank.context(), ones, group, "x")), expected);
    check(
        rank,
        [&](Context& cx, const Tensor& x) {
          return collectives::reduce_scatter_rows(cx, x, group, "x");
        },
        {kRows, kIn},
        part() * kIn);
  });
}

TEST_P(SequenceCollectives, GatheredLinearIsTheLinearOfAllRows) {
  run([](LocalRank& rank) {
    ProcessGroup& group = rank.group(Axis::tensor);
    Workbench bench(rank.device());
    const auto weight =
        bench.parameter("weight", rank.tensor({kOut, kIn}, of_rank(rank, kOut * kIn, 4)));
    const auto bias = bench.parameter("bias", rank.tensor({kOut}, of_rank(rank, kOut, 5)));
    for (Parameter* const with : {bias.get(), static_cast<Parameter*>(nullptr)}) {
      const auto gathered = [&](Context& cx, const Tensor& x) {
        return collectives::gathered_linear(cx, x, *weight, with, group, "x");
      };
      const auto plain = [&](Context& cx, const Tensor& x) {
        return ops::linear(cx, collectives::gather_rows(cx, x, group, "x"), *weight, with);
      };
      const Tensor x = rank.tensor({part(), kIn}, of_rank(rank, part() * kIn, 6));
      EXPECT_EQ(read(gathered(rank.context(), x)), read(plain(rank.context(), x)));
      std::vector<Parameter*> parameters{weight.get()};
      if (with != nullptr) parameters.push_back(with);
      check(rank, gathered, {part(), kIn}, kRows * kOut, parameters);
    }
  });
}

// Runs a weight half without an input half: nothing of x is tracked.
TEST_P(SequenceCollectives, GatheredLinearOfAConstantHasAWeightGradient) {
  run([](LocalRank& rank) {
    ProcessGroup& group = rank.group(Axis::tensor);
    Workbench bench(rank.device());
    const auto weight = bench.parameter("weight", rank.tensor({1, 1}, {2}));
    const Tensor x = rank.tensor({1, 1}, {static_cast<double>(rank.index() + 1)});
    Tape tape;
    Context cx = rank.context();
    cx.tape = &tape;
    const Tape::FrameId frame = tape.begin();
    const Tensor y = collectives::gathered_linear(cx, x, *weight, nullptr, group, "x");
    tape.end({&y, 1});
    const Values ones(static_cast<std::size_t>(GetParam()), 1);
    std::vector<Tape::Gradient> gradients(1);
    gradients[0].tensor = rank.tensor({GetParam(), 1}, ones);
    tape.backward(cx, frame, Half::both, gradients);
    EXPECT_EQ(read(weight->grad)[0], static_cast<double>(GetParam() * (GetParam() + 1)) / 2);
  });
}

TEST_P(SequenceCollectives, RowPartSharesMemory) {
  run([](LocalRank& rank) {
    const Tensor rows = rank.tensor({kRows}, DType::i64, {0, 1, 2, 3, 4, 5, 6, 7});
    const Tensor mine = collectives::row_part(rows, rank.group(Axis::tensor));
    EXPECT_EQ(mine.dim(0), part());
    EXPECT_EQ(read(mine)[0], static_cast<double>(rank.index() * part()));
    EXPECT_FALSE(GetParam() > 1 && rows.sole_owner());
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SequenceCollectives, ::testing::Values(1, 2, 4));

constexpr i64 kTall = 64, kWide = 128;

i64 live(LocalRank& rank) { return rank.device().memory().total; }

// What a gathered linear of [kTall / 4, kWide] holds between forward and backward and between the
// halves, on each of four ranks.
TEST(GatheredLinearMemory, KeepsOnlyThisRanksRows) {
  local_world().run(tensor_ranks(4), [](LocalRank& rank) {
    ProcessGroup& group = rank.group(Axis::tensor);
    const auto weight =
        Workbench(rank.device()).parameter("weight", rank.tensor({8, kWide}, Values(8 * kWide, 1)));
    const Function function = [&](Context& cx, const Tensor& x) {
      const i64 before = live(rank);
      Tensor y = collectives::gathered_linear(cx, x, *weight, nullptr, group, "x");
      EXPECT_EQ(live(rank) - before, y.bytes()) << "after forward";
      return y;
    };
    const Shape mine{kTall / 4, kWide};
    const Loss loss{rank,
                    function,
                    rank.tensor(mine, Values(static_cast<std::size_t>(mine.elements()), 1)),
                    Values(kTall * 8, 1)};
    const i64 before = live(rank);
    backward(loss, {weight.get()}, true, [&] {
      const i64 gradient = kTall * 8 * 4;  // of y, for the weight half
      EXPECT_EQ(live(rank) - before, gradient + loss.x.bytes()) << "between the halves";
    });
    EXPECT_EQ(live(rank), before);
  });
}

TEST(SequenceCollective, RowsThatDoNotDivideAreRefused) {
  const auto run = [](auto collective) {
    return [collective] {
      local_world().run(tensor_ranks(2), [&](LocalRank& rank) {
        collective(rank, rank.tensor({3, 1}, {1, 2, 3}), rank.group(Axis::tensor));
      });
    };
  };
  const auto refused = ::testing::ThrowsMessage<Error>(
      ::testing::StrEq("3 rows do not divide among the 2 ranks of tp[0,1]"));
  EXPECT_THAT(run([](LocalRank& rank, const Tensor& x, ProcessGroup& group) {
                collectives::reduce_scatter_rows(rank.context(), x, group, "x");
              }),
              refused);
  EXPECT_THAT(run([](LocalRank&, const Tensor& x, ProcessGroup& group) {
                collectives::row_part(x, group);
              }),
              refused);
}

}  // namespace sequence_collectives_test
}  // namespace tessera::testing
