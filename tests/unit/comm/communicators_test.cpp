#include "kernel/comm/communicators.hpp"

#include <gtest/gtest.h>

#include "kernel/launch/environment.hpp"
#include "tests/common/environment.hpp"

namespace tessera {
namespace communicators_test {

TEST(Communicators, WhatIsConfiguredIsTaken) {
  const auto chosen = choose_communicators("mine", {"a", "a", "b", "b"});
  EXPECT_EQ(chosen.type, "mine");
  EXPECT_EQ(chosen.between, "");
}

TEST(Communicators, OneHost) {
  const auto chosen = choose_communicators("auto", {"a", "a", "a"});
  EXPECT_EQ(chosen.type, "shm");
  EXPECT_EQ(chosen.between, "");
  EXPECT_EQ(chosen.text, "shm");
}

TEST(Communicators, OneRankAHost) {
  const auto chosen = choose_communicators("auto", {"a", "b"});
  EXPECT_EQ(chosen.type, "gloo");
  EXPECT_EQ(chosen.between, "");
}

TEST(Communicators, SomeRanksShareAHost) {
  const auto chosen = choose_communicators("auto", {"a", "b", "c", "a"});
  EXPECT_EQ(chosen.type, "shm");
  EXPECT_EQ(chosen.between, "gloo");
  EXPECT_EQ(chosen.text, "shm within 3 hosts and gloo between");
}

TEST(HostIdentity, IsTheSameAgainAndCanBeGiven) {
  const std::string own = host_identity();
  EXPECT_EQ(host_identity(), own);
  const testing::EnvironmentVariable host(kHostVariable, "second");
  EXPECT_NE(host_identity(), own);
  EXPECT_NE(host_identity().find("second"), std::string::npos);
}

}  // namespace communicators_test
}  // namespace tessera
