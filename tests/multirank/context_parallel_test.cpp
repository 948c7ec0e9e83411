// Context parallelism around the attention layer: validation, and what a configuration may ask for.
#include <gmock/gmock.h>

#include "invariant_support.hpp"
#include "tessera/error.hpp"

namespace tessera::testing {
namespace context_parallel_test {

using ::testing::HasSubstr;

double validation_loss(const Sets& sets) {
  double loss = 0;
  TrainOptions options;
  options.at_end = [&](RankRun& run) {
    const double mine =
        run.evaluation().validate(5).loss;  // not a multiple of what a microbatch holds
    if (run.mesh().rank() == 0) loss = mine;
  };
  train(tiny_config(), sets, options);
  return loss;
}

TEST(ContextParallel, ValidationGivesTheLossOfOneRank) {
  const double alone = validation_loss({});
  for (const char* method : {"ring", "allgather", "all_to_all"}) {
    const std::string set = fmt::format("model.block.attention.context=\"{}\"", method);
    EXPECT_NEAR(validation_loss({"parallel.context=2", "parallel.data=2", set}), alone, 1e-5)
        << method;
  }
}

TEST(ContextParallel, SequencesMustDivideIntoChunks) {
  const auto run = [] {
    train(tiny_config(), {"parallel.context=2", "batch.sequence_length=6"}, {});
  };
  EXPECT_THAT(run,
              ::testing::ThrowsMessage<ConfigError>(
                  HasSubstr("[parallel] context = 2 cuts every sample into 4 equal chunks, two a "
                            "rank, and batch.sequence_length = 6 does not divide by 4")));
}

}  // namespace context_parallel_test
}  // namespace tessera::testing
