// One rank of several fails: the others end with it, and the reason is what is thrown.
#include <gtest/gtest.h>

#include "common/error_of.hpp"
#include "tessera/error.hpp"
#include "training_support.hpp"

namespace tessera::testing {
namespace failing_rank_test {

// It does not wait for their timeout, which would be an hour.
TEST(FailingRank, EndsTheOthersAtOnce) {
  const auto fails = [](RankRun& run) {
    if (run.mesh().rank() == 1) fail("rank 1 has had enough");
  };
  EXPECT_EQ(error_of([&] {
              train(tiny_config(),
                    {"parallel.tensor=2", "parallel.data=2", "comm.timeout_s=3600"},
                    {.before_update = fails});
            }),
            "rank 1 has had enough");
}

}  // namespace failing_rank_test
}  // namespace tessera::testing
