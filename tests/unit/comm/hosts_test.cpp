#include "kernel/comm/hosts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/error.hpp"

namespace tessera {
namespace hosts_test {

using ::testing::ElementsAre;

TEST(Hosts, RanksInAnyOrder) {
  const Hosts hosts({"a", "b", "a", "c", "b", "a"});
  EXPECT_EQ(hosts.count(), 3);
  EXPECT_EQ(hosts.world(), 6);
  EXPECT_THAT(hosts.neighbours(2), ElementsAre(0, 2, 5));
  EXPECT_THAT(hosts.neighbours(3), ElementsAre(3));
  EXPECT_EQ(hosts.local_rank(5), 2);
  EXPECT_EQ(hosts.local_rank(4), 1);
  EXPECT_EQ(hosts.local_rank(3), 0);
}

TEST(Hosts, WhoIsTogether) {
  const Hosts hosts({"a", "b", "a", "c", "b", "a"});
  const std::vector<i64> same = {5, 0}, different = {0, 1}, one = {3};
  EXPECT_TRUE(hosts.together(same));
  EXPECT_FALSE(hosts.together(different));
  EXPECT_TRUE(hosts.together(one));
  EXPECT_THROW((void)hosts.neighbours(6), Error);
}

}  // namespace hosts_test
}  // namespace tessera
