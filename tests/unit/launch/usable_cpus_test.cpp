#include "tessera/usable_cpus.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include "sdk/src/cpu_quota.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace usable_cpus_test {

TEST(UsableCpus, FollowsTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_LE(usable_cpus(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cpus(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(CpuQuota, IsTheSmallestOfAGroupAndThoseAboveIt) {
  const TestFolder mounted;
  mounted.write("batch/job/cpu.max", "350000 100000\n");
  mounted.write("batch/cpu.max", "250000 100000\n");
  mounted.write("cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota("0::/batch/job/step\n", mounted.path()), 2.5);
  EXPECT_EQ(cpu_quota("0::/other\n", mounted.path()), std::nullopt);
  EXPECT_EQ(cpu_quota("", mounted.path()), std::nullopt);
}

TEST(CpuQuota, OfAContainerThatSeesItsGroupAsTheRoot) {
  const TestFolder mounted;
  mounted.write("cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_quota("0::/\n", mounted.path()), 1.5);
  EXPECT_EQ(cpu_quota("0::/../../outside\n", mounted.path()), 1.5);
}

TEST(CpuQuota, OfVersionOne) {
  const TestFolder mounted;
  mounted.write("cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "50000\n");
  mounted.write("cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  mounted.write("cpu,cpuacct/docker/cpu.cfs_quota_us", "-1\n");
  mounted.write("cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
  const std::string groups = "5:cpuset:/docker/abc\n4:cpu,cpuacct:/docker/abc\n";
  EXPECT_EQ(cpu_quota(groups, mounted.path()), 0.5);
  EXPECT_EQ(cpu_quota("5:cpuset:/docker/abc\n", mounted.path()), std::nullopt);
}

TEST(CpuQuota, NonsenseIsNoQuota) {
  const TestFolder mounted;
  for (const char* text : {"", "max", "100000", "100000 0", "x y"}) {
    mounted.write("cpu.max", text);
    EXPECT_EQ(cpu_quota("0::/\n", mounted.path()), std::nullopt) << text;
  }
}

}  // namespace usable_cpus_test
}  // namespace tessera
