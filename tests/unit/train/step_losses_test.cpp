#include "kernel/train/execution/step_losses.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "kernel/model/model_parts.hpp"
#include "tessera/error.hpp"
#include "tessera/ops/update.hpp"
#include "tessera/testing/local_world.hpp"
#include "tessera/testing/workbench.hpp"

namespace tessera {
namespace step_losses_test {

using testing::LocalRank;
using testing::read;

const testing::LocalWorld& world() {
  static const testing::LocalWorld kWorld({TESSERA_BUILD_DIR "/plugins"});
  return kWorld;
}

testing::LocalWorldOptions data_ranks(i64 ranks) {
  testing::LocalWorldOptions options;
  options.layout.world = ranks;
  return options;
}

TEST(StepLoss, WeightsAreSummedOverRanksAsIntegers) {
  world().run(data_ranks(2), [](LocalRank& rank) {
    ModelParts parts(rank.mesh());
    const LossTerm lm{parts.loss({.name = "lm"})}, aux{parts.loss({.name = "aux"})};
    StepLosses losses(parts, 4, rank.mesh(), rank.device());
    losses.begin(rank.context(),
                 rank.tensor({2}, DType::i64, {3.0 + static_cast<double>(rank.index()), 0}),
                 rank.mesh().data_context());
    EXPECT_EQ(read(losses.inverse_weight(lm))[0], 1.0 / 7);
    EXPECT_EQ(read(losses.inverse_weight(aux))[0], 0) << "weight 0 gives loss 0";
  });
}

TEST(StepLoss, RowsAreSumsOfTermsOverRanksStepByStep) {
  world().run(data_ranks(2), [](LocalRank& rank) {
    ModelParts parts(rank.mesh());
    const LossTerm lm{parts.loss({.name = "lm"})}, aux{parts.loss({.name = "aux"})};
    const Metric seen{parts.metric({.name = "seen"})};
    StepLosses losses(parts, 2, rank.mesh(), rank.device());
    Context& cx = rank.context();
    const auto scalar = [&](double value) { return rank.tensor({1}, DType::fp64, {value}); };
    for (int step = 1; step <= 2; ++step) {
      losses.begin(cx, rank.tensor({2}, DType::i64, {1, 1}), rank.mesh().data_context());
      for (int microbatch = 0; microbatch < 2; ++microbatch) {
        losses.add_loss(cx, lm, scalar(0.25 * step + static_cast<double>(rank.index())));
        losses.add_loss(cx, aux, scalar(8));
        losses.report(cx, seen, scalar(5));
      }
      std::vector<double> scalars(step_scalar::kCount, 0);
      scalars[step_scalar::kNorm] = step;
      losses.keep(cx, rank.tensor({step_scalar::kCount}, DType::fp64, scalars));
    }
    EXPECT_TRUE(losses.full());
    EXPECT_THROW(losses.keep(cx,
                             rank.tensor({step_scalar::kCount},
                                         DType::fp64,
                                         std::vector<double>(step_scalar::kCount))),
                 Error);
    const auto rows = losses.flush(cx);
    ASSERT_EQ(rows.size(), 2U);
    for (int step = 1; step <= 2; ++step) {
      const StepLosses::Row& row = rows[static_cast<std::size_t>(step - 1)];
      EXPECT_EQ(row.loss, 4 * 0.25 * step + 2 + 4 * 8);
      // Of a loss that has several terms, each is told.
      EXPECT_THAT(row.metrics,
                  ::testing::ElementsAre(::testing::Pair("seen", 20),
                                         ::testing::Pair("lm", 4 * 0.25 * step + 2),
                                         ::testing::Pair("aux", 4 * 8)));
      EXPECT_EQ(row.scalars[step_scalar::kNorm], step);
    }
    EXPECT_FALSE(losses.full());
    EXPECT_TRUE(losses.flush(cx).empty());
  });
}

// Each is a mean over rows of its own, and one metric shows their sum.
TEST(StepLoss, AuxiliaryTermsMayShareAMetric) {
  world().run(data_ranks(2), [](LocalRank& rank) {
    ModelParts parts(rank.mesh());
    const LossTerm lm{parts.loss({.name = "lm"})};
    const LossTerm near{parts.loss({.name = "a.1", .auxiliary = true, .metric = "a"})};
    const LossTerm other{parts.loss({.name = "b", .auxiliary = true})};
    const LossTerm far{parts.loss({.name = "a.2", .auxiliary = true, .metric = "a"})};
    EXPECT_THROW(parts.loss({.name = "c", .metric = "a"}), Error) << "it is the run's loss";
    EXPECT_THROW(parts.loss({.name = "a.1", .auxiliary = true, .metric = "b"}), ConfigError);
    StepLosses losses(parts, 1, rank.mesh(), rank.device());
    Context& cx = rank.context();
    const auto scalar = [&](double value) { return rank.tensor({1}, DType::fp64, {value}); };
    losses.begin(cx, rank.tensor({4}, DType::i64, {1, 1, 1, 2}), rank.mesh().data_context());
    EXPECT_EQ(read(losses.inverse_weight(near))[0], 0.5);
    EXPECT_EQ(read(losses.inverse_weight(far))[0], 0.25);
    losses.add_loss(cx, lm, scalar(1));
    losses.add_loss(cx, near, scalar(2));
    losses.add_loss(cx, other, scalar(4));
    losses.add_loss(cx, far, scalar(8));
    losses.keep(cx);
    const auto rows = losses.flush(cx);
    EXPECT_EQ(rows.at(0).loss, 2);
    using ::testing::Pair;
    EXPECT_THAT(rows.at(0).metrics, ::testing::ElementsAre(Pair("a", 20), Pair("b", 8)));
  });
}

// Two tensor and two data ranks: 0, 1 | 2, 3.
TEST(StepLoss, WhatRanksShareCountsOnce) {
  testing::LocalWorldOptions options;
  options.layout = {.world = 4, .tensor = 2};
  world().run(options, [](LocalRank& rank) {
    ModelParts parts(rank.mesh());
    const std::vector<Axis> parted = {Axis::tensor, Axis::context, Axis::data};
    const LossTerm lm{parts.loss({.name = "lm"})};
    const LossTerm balance{parts.loss({.name = "balance", .auxiliary = true, .partial = parted})};
    const Metric same{parts.metric({.name = "same", .partial = {}})};
    const Metric mean{parts.metric({"mean", MetricReduce::mean, parted})};
    const Metric rows{parts.metric({"rows", MetricReduce::mean})};
    const Metric peak{parts.metric({"peak", MetricReduce::max, parted})};
    const Metric of_data{parts.metric({"peak_of_data", MetricReduce::max, {Axis::data}})};
    parts.metric({"never", MetricReduce::mean});
    parts.metric({"nowhere", MetricReduce::max});
    StepLosses losses(parts, 2, rank.mesh(), rank.device());
    Context& cx = rank.context();
    const auto scalar = [&](double value) { return rank.tensor({1}, DType::fp64, {value}); };
    const auto index = static_cast<double>(rank.index());
    const auto data = static_cast<double>(rank.mesh().coordinate(Axis::data));
    losses.begin(cx, rank.tensor({2}, DType::i64, {1, 1}), rank.mesh().data_context());
    losses.add_loss(cx, lm, scalar(1 + data));
    losses.add_loss(cx, balance, scalar(index));
    losses.report(cx, same, scalar(7));
    for (int microbatch = 0; microbatch < 2; ++microbatch) {
      losses.report(cx, mean, scalar(index + microbatch));
      losses.report(cx, rows, scalar(data));
      losses.report(cx, peak, scalar(-index - microbatch));
    }
    if (rank.index() == 2) losses.report(cx, of_data, scalar(-3));
    losses.keep(cx);
    EXPECT_EQ(losses.now(cx), 3);
    const auto rows_of = losses.flush(cx);
    EXPECT_EQ(rows_of.at(0).loss, 3) << "auxiliary losses are no part of it";
    using ::testing::Pair;
    EXPECT_THAT(rows_of.at(0).metrics,
                ::testing::ElementsAre(Pair("same", 7),
                                       Pair("mean", 2),
                                       Pair("rows", 0.5),
                                       Pair("peak", 0),
                                       Pair("peak_of_data", -3),
                                       Pair("balance", 6)));
  });
}

// On two tensor and two data ranks, layers report by what they counted over all of them.
TEST(StepLoss, CountsAreMadeIntoMetricsOfTheirSums) {
  testing::LocalWorldOptions options;
  options.layout = {.world = 4, .tensor = 2};
  world().run(options, [](LocalRank& rank) {
    ModelParts parts(rank.mesh());
    const LossTerm lm{parts.loss({.name = "lm"})};
    const auto told = [](std::span<const double> sums) {
      return std::vector<LayerMetric>{{"most", std::ranges::max(sums), MetricReduce::max},
                                      {"first", sums[0], MetricReduce::mean},
                                      {"last", sums.back(), MetricReduce::sum}};
    };
    const Counts a{parts.counts({.size = 3, .metrics = told}, "a")};
    const Counts b{parts.counts({.size = 2, .sets = 2, .metrics = told}, "b")};
    StepLosses losses(parts, 2, rank.mesh(), rank.device());
    Context& cx = rank.context();
    const Tensor of_a = rank.tensor({2, 2}, DType::i32, {0, 1, 1, 3});  // 3: of no expert
    const Tensor of_b = rank.tensor({1, 2}, DType::i32, {1, -1});
    for (int step = 1; step <= 2; ++step) {
      losses.begin(cx, rank.tensor({1}, DType::i64, {1}), rank.mesh().data_context());
      losses.add_loss(cx, lm, rank.tensor({1}, DType::fp64, {1}));
      for (int microbatch = 0; microbatch < step; ++microbatch) losses.count(cx, a, 0, of_a);
      losses.count(cx, b, 1, of_b);
      losses.keep(cx);
    }
    const auto rows = losses.flush(cx);
    using ::testing::ElementsAre;
    using ::testing::Pair;
    for (const double step : {1, 2}) {
      const StepLosses::Row& row = rows.at(static_cast<std::size_t>(step) - 1);
      EXPECT_EQ(row.loss, 2) << "of two data ranks";
      EXPECT_THAT(row.metrics,
                  ElementsAre(Pair("most", 8 * step), Pair("first", 2 * step), Pair("last", 4)));
      EXPECT_THAT(row.by_layer,
                  ElementsAre(Pair("most", ElementsAre(8 * step, 4)),
                              Pair("first", ElementsAre(4 * step, 0)),
                              Pair("last", ElementsAre(0, 4))));
    }
  });
}

TEST(StepLoss, AModelWithoutLossIsRefused) {
  world().run(data_ranks(1), [](LocalRank& rank) {
    ModelParts parts(rank.mesh());
    EXPECT_THROW(StepLosses(parts, 1, rank.mesh(), rank.device()), Error);
  });
}

}  // namespace step_losses_test
}  // namespace tessera
