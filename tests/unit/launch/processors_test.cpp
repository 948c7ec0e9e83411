#include "kernel/launch/processors.hpp"

#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <thread>

#include "sdk/src/shared/usable_cpus.hpp"
#include "tests/common/environment.hpp"

namespace tessera {
namespace processors_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Processors, AreSharedEvenlyWhereEachRankHasEnough) {
  EXPECT_THAT(share_processors({0, 1, 4, 5}, 2, 2),
              ElementsAre(ElementsAre(0, 1), ElementsAre(4, 5)));
  EXPECT_THAT(share_processors({0, 1, 2, 3, 4}, 2, 1),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4)));
  EXPECT_THAT(share_processors({0, 1, 2, 3, 4}, 2, 3), IsEmpty());
  EXPECT_THAT(share_processors({0}, 2, 1), IsEmpty());
}

TEST(Processors, OfAThreadAreThoseOfItsMask) {
  std::thread([] {
    const std::vector<int> all = allowed_cpus();
    ASSERT_TRUE(CpuMask({all.back()}).apply());
    EXPECT_THAT(allowed_cpus(), ElementsAre(all.back()));
    ASSERT_TRUE(CpuMask(all).apply());
    EXPECT_EQ(allowed_cpus(), all);
    EXPECT_FALSE(CpuMask({5000}).apply()) << "no machine of the tests has so many";
  }).join();
}

TEST(Processors, RanksThatCrowdAreNamed) {
  const testing::EnvironmentVariable unbound("OMP_PROC_BIND", std::nullopt);
  const testing::EnvironmentVariable nowhere("OMP_PLACES", std::nullopt);
  const testing::EnvironmentVariable no_list("GOMP_CPU_AFFINITY", std::nullopt);
  const std::string advice =
      "let what starts them give each of them processors of its own (mpirun --bind-to core, srun "
      "--cpu-bind=cores)";
  EXPECT_EQ(crowded_text({"a", "a", "a"}, {"1 of 8:0", "1 of 8:1", "1 of 8:0"}),
            "ranks 0 and 2 run on processor 0 of a host that has 8, and wait for each other by "
            "turns: " +
                advice);
  EXPECT_EQ(crowded_text({"a", "a", "a"}, {"2 of 8:3-4", "2 of 8:3-4", "2 of 8:3-4"}),
            "ranks 0, 1 and 2 run on processors 3-4 of a host that has 8, and wait for each other "
            "by turns: " +
                advice);
  EXPECT_EQ(crowded_text({"a", "b"}, {"1 of 8:0", "1 of 8:0"}), "") << "two hosts";
  EXPECT_EQ(crowded_text({"a", "a"}, {"2 of 8:0-1", "2 of 8:0-1"}), "") << "enough for both";
  EXPECT_EQ(crowded_text({"a", "a"}, {"1 of 1:0", "1 of 1:0"}), "") << "the host has no more";
  const testing::EnvironmentVariable bound("OMP_PROC_BIND", "close");
  EXPECT_THAT(crowded_text({"a", "a"}, {"1 of 8:0", "1 of 8:0"}),
              HasSubstr("by turns: unset OMP_PROC_BIND=close, or let what starts them"));
}

}  // namespace processors_test
}  // namespace tessera
