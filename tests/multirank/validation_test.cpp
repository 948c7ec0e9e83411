// What a validation reads: each sample of the set once at most.
#include <gmock/gmock.h>

#include "common/error_of.hpp"
#include "tessera/error.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace validation_test {

using ::testing::HasSubstr;

// The validation loss after one step. Half of a step's microbatches hold 4 samples each, so that
// samples which came again would count more often than others.
double loss_of(const std::vector<std::string>& sets) {
  const TestFolder folder;
  TrainerOptions options{tiny_config() + "[observers.metrics]\n", sets};
  options.sets = {"run.steps=1",
                  "lr.warmup_steps=0",
                  "validation.every_steps=1",
                  "batch.micro=4",
                  "data.validation=0.002"};
  options.sets.insert(options.sets.end(), sets.begin(), sets.end());
  options.sets.push_back("run.out=" + folder.at("run"));
  run_trainer(options);
  const std::vector<double> losses = metric_of(folder.at("run"), "val_loss");
  EXPECT_EQ(losses.size(), 1U);
  return losses.empty() ? 0 : losses[0];
}

TEST(Validation, ReadsEachSampleOfTheSetOnceAtMost) {
  const double whole = loss_of({"validation.samples=0"});
  EXPECT_GT(whole, 1);
  EXPECT_NE(loss_of({"validation.samples=2"}), whole);
  EXPECT_EQ(loss_of({"validation.samples=7"}), whole);
  EXPECT_EQ(loss_of({"validation.samples=100000000000"}), whole);
}

// Rows that fill a microbatch take no places from the samples that it has.
TEST(Validation, PaddingIsNoSample) {
  std::vector<std::string> sets = {"validation.samples=2",
                                   "model.block.mlp.type=\"moe\"",
                                   "model.block.mlp.experts=4",
                                   "model.block.mlp.capacity_factor=0.5",
                                   "batch.micro=2"};
  const double whole = loss_of(sets);
  sets.back() = "batch.micro=4";
  EXPECT_NEAR(loss_of(sets), whole, 1e-6);
}

TEST(Validation, InSixteenBits) {
  const double wide = loss_of({});
  for (const std::string compute : {"bf16", "fp16"}) {
    const double narrow = loss_of({"precision.compute=\"" + compute + "\"", "parallel.pipeline=2"});
    EXPECT_NE(narrow, wide) << compute;
    EXPECT_NEAR(narrow, wide, 0.02) << compute;
  }
}

TEST(Validation, WithoutSamplesIsAConfigurationError) {
  const auto problem = [](const std::vector<std::string>& sets) -> std::string {
    const Resolved config = resolve(Config::parse(tiny_config(), "test", sets), plugins());
    return error_of<ConfigError>([&] { derive_setup(config, plugins(), 1); });
  };
  EXPECT_EQ(problem({"data.validation=0"}), "");
  EXPECT_THAT(problem({"data.validation=0", "validation.every_steps=5"}),
              HasSubstr("[validation] every_steps = 5, but [data] keeps no samples"));
}

}  // namespace validation_test
}  // namespace tessera::testing
