// One rank of several fails: the others end with it, and the reason is what is thrown.
#include <gtest/gtest.h>

#include <chrono>

#include "tessera/error.hpp"
#include "training_support.hpp"

namespace tessera::testing {
namespace {

TEST(FailingRank, EndsTheOthersBeforeTheirTimeout) {
  const auto begin = std::chrono::steady_clock::now();
  const auto fails = [](Session& session) {
    if (session.mesh().rank() == 1) fail("rank 1 has had enough");
  };
  try {
    train(tiny_config(),
          {"parallel.tensor=2", "parallel.data=2", "comm.timeout_s=100"},
          {.before_update = fails});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1 has had enough");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(90));
}

}  // namespace
}  // namespace tessera::testing
