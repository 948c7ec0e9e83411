// A vocabulary cut over ranks: sizes that do not divide, and cross entropy against plain loops.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "invariant_support.hpp"
#include "kernel/model/host_values.hpp"
#include "tensor_parallel_support.hpp"

namespace tessera::testing {
namespace vocabulary_test {

struct PaddedRun {
  Training training;
  Tensors initial;
  i64 padding_rows = 0;      ///< over all ranks
  bool padding_zero = true;  ///< after training, in every form of every rank's table
};

PaddedRun train_padded(i64 ranks, i64 vocab, i64 multiple, bool tied) {
  PaddedRun run;
  std::mutex mutex;
  TrainOptions options{.steps = 5};
  options.before_update = [&](RankRun& rank) {
    for (const auto& entry : rank.parts().parameters()) {
      const Parameter& p = *entry.parameter;
      const std::vector<double> local = read_values(rank.device(), p.main);
      const std::lock_guard lock(mutex);
      gather_into(run.initial[p.name], local, p);
    }
  };
  options.at_end = [&](RankRun& rank) {
    for (const auto& entry : rank.parts().parameters()) {
      const Parameter& p = *entry.parameter;
      if (p.logical[0] != vocab) continue;
      i64 used = 0;
      for (const Slice& slice : p.layout.slices(0)) used += slice.length;
      std::vector<Tensor> forms{p.main, p.grad};
      for (const NamedState& state : rank.step().optimizer().state()) {
        if (state.parameter == &p) forms.push_back(state.tensor);
      }
      const std::lock_guard lock(mutex);
      run.padding_rows += p.local[0] - used;
      for (const Tensor& form : forms) {
        const Values values = read_values(rank.device(), form);
        for (auto i = static_cast<std::size_t>(used * p.local[1]); i < values.size(); ++i) {
          run.padding_zero &= values[i] == 0;
        }
      }
    }
  };
  run.training = train(tiny_config(),
                       {fmt::format("parallel.tensor={}", ranks),
                        fmt::format("model.vocab={}", vocab),
                        fmt::format("model.vocab_multiple={}", multiple),
                        fmt::format("model.tied_embeddings={}", tied)},
                       options);
  return run;
}

class PaddedVocabulary : public ::testing::TestWithParam<std::tuple<i64, i64>> {};

TEST_P(PaddedVocabulary, IsTheSameModel) {
  const auto [vocab, multiple] = GetParam();
  for (const bool tied : {true, false}) {
    const PaddedRun one = train_padded(1, vocab, 1, tied);
    EXPECT_EQ(one.padding_rows, 0);
    for (const i64 ranks : {1, 2, 4}) {
      SCOPED_TRACE(fmt::format("{} ranks, tied {}", ranks, tied));
      const PaddedRun cut = train_padded(ranks, vocab, multiple, tied);
      const i64 unit = multiple * ranks, tables = tied ? 1 : 2;
      EXPECT_EQ(cut.padding_rows, tables * ((vocab + unit - 1) / unit * unit - vocab));
      EXPECT_TRUE(cut.padding_zero);
      EXPECT_TRUE(cut.initial == one.initial) << "initial values";
      EXPECT_EQ(difference(cut.training.losses, one.training.losses, 2e-6, "loss"), "");
      EXPECT_EQ(difference(cut.training.norms, one.training.norms, 1e-5, "norm"), "");
      EXPECT_EQ(difference(cut.training.gradients, one.training.gradients), "");
    }
  }
}

// 257 by 128 on four ranks leaves the third with one entry and the fourth with padding only.
INSTANTIATE_TEST_SUITE_P(Sizes,
                         PaddedVocabulary,
                         ::testing::Values(std::tuple{257, 1},
                                           std::tuple{257, 8},
                                           std::tuple{257, 128},
                                           std::tuple{259, 4}));

struct LossCase {
  i64 rows = 7, vocab = 13, padded = 16;
  Values logits, targets, mask;
  double inverse_weight = 0;
  double loss = 0;       ///< in double, plain loops
  Values gradient = {};  ///< [rows, vocab], of the loss times `scale`
  double scale = 3;
};

LossCase loss_case(u64 seed, const Values& mask) {
  LossCase c;
  c.mask = mask;
  c.logits = random_values(c.rows * c.vocab, seed);
  for (double& logit : c.logits) logit *= 8;
  for (const double value : random_values(c.rows, seed + 1000)) {
    c.targets.push_back(std::floor((value + 1) / 2 * static_cast<double>(c.vocab)));
  }
  double weight = 0;
  for (const double kept : mask) weight += kept;
  c.inverse_weight = weight > 0 ? 1 / weight : 0;
  for (i64 row = 0; row < c.rows; ++row) {
    const double* logits = c.logits.data() + row * c.vocab;
    const auto target = static_cast<i64>(c.targets[static_cast<std::size_t>(row)]);
    const double kept = mask[static_cast<std::size_t>(row)] * c.inverse_weight;
    double sum = 0;
    for (i64 i = 0; i < c.vocab; ++i) sum += std::exp(logits[i]);
    c.loss += kept * (std::log(sum) - logits[target]);
    for (i64 i = 0; i < c.vocab; ++i) {
      c.gradient.push_back(c.scale * kept * (std::exp(logits[i]) / sum - (i == target ? 1 : 0)));
    }
  }
  return c;
}

// This rank's columns; padding holds what would be found out if it were read.
Values padded_columns(const LossCase& c, i64 first, i64 local, double fill) {
  Values part;
  for (i64 row = 0; row < c.rows; ++row) {
    for (i64 column = first; column < first + local; ++column) {
      part.push_back(column < c.vocab ? c.logits[static_cast<std::size_t>(row * c.vocab + column)]
                                      : fill);
    }
  }
  return part;
}

/// One term, added once.
class OneLoss final : public StepSink {
 public:
  explicit OneLoss(Tensor inverse_weight) : inverse_weight_(std::move(inverse_weight)) {}
  Tensor inverse_weight(LossTerm) override { return inverse_weight_; }
  void add_loss(Context&, LossTerm, const Tensor& scalar) override { loss = scalar; }
  void report(Context&, Metric, const Tensor&) override {}
  void count(Context&, Counts, i64, const Tensor&) override {}
  Tensor loss;

 private:
  Tensor inverse_weight_;
};

void check_loss(LocalRank& rank, const LossCase& c, double tolerance) {
  const i64 local = c.padded / rank.mesh().size(Axis::tensor), first = rank.index() * local;
  const i64 valid = std::clamp<i64>(c.vocab - first, 0, local);
  Context cx = rank.context();
  Tape tape;
  cx.tape = &tape;
  cx.loss_scale = rank.tensor({1}, DType::fp64, {c.scale});
  std::vector<Tensor> logits{rank.tensor({c.rows, local}, padded_columns(c, first, local, 1e4))};
  logits[0] = logits[0].with_var(kNeedsGradient);
  const Tape::FrameId frame = tape.begin(logits);
  OneLoss sink(rank.tensor({1}, DType::fp64, {c.inverse_weight}));
  cx.sink = &sink;
  ops::add_cross_entropy(cx,
                         {},
                         logits[0],
                         rank.tensor({c.rows}, DType::i64, c.targets),
                         rank.tensor({c.rows}, DType::u8, c.mask),
                         first,
                         valid,
                         rank.group(Axis::tensor),
                         "loss");
  tape.end();
  EXPECT_NEAR(read(sink.loss)[0], c.loss, tolerance * std::abs(c.loss));
  std::vector<Tape::Gradient> gradients;
  tape.backward(cx, frame, Half::both, gradients);
  const Values gradient = read(gradients[0].tensor);
  for (i64 row = 0; row < c.rows; ++row) {
    for (i64 i = 0; i < local; ++i) {
      const double got = gradient[static_cast<std::size_t>(row * local + i)];
      const double want =
          i < valid ? c.gradient[static_cast<std::size_t>(row * c.vocab + first + i)] : 0;
      EXPECT_NEAR(got, want, tolerance) << "row " << row << " entry " << first + i;
      if (want == 0) {
        EXPECT_EQ(got, 0) << "row " << row << " entry " << first + i;
      }
    }
  }
}

class VocabularyLoss : public ::testing::TestWithParam<i64> {
 protected:
  static void check(const LossCase& c) {
    for (const auto& [dtype, tolerance] :
         {std::pair{DType::fp64, 1e-13}, std::pair{DType::fp32, 2e-6}}) {
      local_world().run(
          tensor_ranks(GetParam(), dtype),
          [&, tolerance = tolerance](LocalRank& rank) { check_loss(rank, c, tolerance); });
    }
  }
};

TEST_P(VocabularyLoss, EqualsPlainLoops) {
  for (u64 seed = 0; seed < 5; ++seed) check(loss_case(seed, Values(7, 1)));
}

TEST_P(VocabularyLoss, MaskedRowsDoNotCount) {
  check(loss_case(10, {1, 0, 1, 1, 0, 0, 1}));
  check(loss_case(11, {0, 0, 0, 1, 0, 0, 0}));
}

TEST_P(VocabularyLoss, WithoutWeightItIsZero) {
  const LossCase c = loss_case(12, Values(7, 0));
  EXPECT_EQ(c.loss, 0);
  check(c);
}

INSTANTIATE_TEST_SUITE_P(Ranks, VocabularyLoss, ::testing::Values(1, 2, 4, 8));

}  // namespace vocabulary_test
}  // namespace tessera::testing
