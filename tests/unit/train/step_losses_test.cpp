#include "kernel/train/execution/step_losses.hpp"

#include <gmock/gmock.h>

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
    const LossTerm lm{parts.loss("lm")}, aux{parts.loss("aux")};
    StepLosses losses(parts, 4, rank.device());
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
    const LossTerm lm{parts.loss("lm")}, aux{parts.loss("aux")};
    const Metric seen{parts.metric({"seen", MetricReduce::sum})};
    StepLosses losses(parts, 2, rank.device());
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
    const auto rows = losses.flush(cx, rank.mesh());
    ASSERT_EQ(rows.size(), 2U);
    for (int step = 1; step <= 2; ++step) {
      const StepLosses::Row& row = rows[static_cast<std::size_t>(step - 1)];
      EXPECT_EQ(row.loss, 4 * 0.25 * step + 2 + 4 * 8);
      EXPECT_THAT(row.metrics, ::testing::ElementsAre(20));
      EXPECT_EQ(row.scalars[step_scalar::kNorm], step);
    }
    EXPECT_FALSE(losses.full());
    EXPECT_TRUE(losses.flush(cx, rank.mesh()).empty());
  });
}

TEST(StepLoss, AModelWithoutLossIsRefused) {
  world().run(data_ranks(1), [](LocalRank& rank) {
    ModelParts parts(rank.mesh());
    EXPECT_THROW(StepLosses(parts, 1, rank.device()), Error);
  });
}

}  // namespace step_losses_test
}  // namespace tessera
