#include "sdk/src/shared/usable_cpus.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include "sdk/src/cpu_quota.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace usable_cpus_test {

TEST(UsableCpus, FollowsTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(usable_cpus(), cpus_within_quota(CPU_COUNT(&before)));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cpus(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

class CpuQuota : public ::testing::Test {
 protected:
  // The quota of a process in these groups.
  std::optional<double> of(const std::string& groups) const {
    system_.write("proc/self/cgroup", groups);
    return cpu_quota(system_.at("proc"), system_.at("groups"));
  }
  // Usable to a process of the group at the root, by how many its affinity mask has.
  int usable_of(int affinity) const {
    system_.write("proc/self/cgroup", "0::/\n");
    return cpus_within_quota(affinity, system_.at("proc"), system_.at("groups"));
  }
  void write(const std::string& file, const std::string& text) const {
    system_.write("groups/" + file, text);
  }
  TestFolder system_;
};

TEST_F(CpuQuota, IsTheSmallestOfAGroupAndThoseAboveIt) {
  write("batch/job/cpu.max", "350000 100000\n");
  write("batch/cpu.max", "250000 100000\n");
  write("cpu.max", "max 100000\n");
  EXPECT_EQ(of("0::/batch/job/step\n"), 2.5);
  EXPECT_EQ(of("0::/other\n"), std::nullopt);
  EXPECT_EQ(of(""), std::nullopt);
}

TEST_F(CpuQuota, OfAContainerThatSeesItsGroupAsTheRoot) {
  write("cpu.max", "150000 100000\n");
  EXPECT_EQ(of("0::/\n"), 1.5);
  EXPECT_EQ(of("0::/../../outside\n"), 1.5);
}

TEST_F(CpuQuota, OfVersionOne) {
  write("cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "50000\n");
  write("cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  write("cpu,cpuacct/docker/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(of("5:cpuset:/docker/abc\n4:cpu,cpuacct:/docker/abc\n"), 0.5);
  EXPECT_EQ(of("5:cpuset:/docker/abc\n"), std::nullopt);
}

TEST_F(CpuQuota, NonsenseIsNoQuota) {
  for (const char* text : {"", "max", "100000", "100000 0", "x y"}) {
    write("cpu.max", text);
    EXPECT_EQ(of("0::/\n"), std::nullopt) << text;
  }
}

TEST_F(CpuQuota, BoundsTheUsableCpusAndIsRoundedDown) {
  EXPECT_EQ(usable_of(4), 4) << "there is no quota";
  write("cpu.max", "max 100000\n");
  EXPECT_EQ(usable_of(4), 4) << "there is no quota";
  write("cpu.max", "150000 100000\n");
  EXPECT_EQ(usable_of(4), 1);
  write("cpu.max", "390000 100000\n");
  EXPECT_EQ(usable_of(4), 3);
  EXPECT_EQ(usable_of(2), 2) << "the mask has fewer";
  write("cpu.max", "50000 100000\n");
  EXPECT_EQ(usable_of(4), 1) << "one thread runs, if slowly";
}

}  // namespace usable_cpus_test
}  // namespace tessera
