#include "kernel/comm/communicators.hpp"

#include <gtest/gtest.h>

#include "kernel/launch/environment.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/plugin.hpp"
#include "tests/common/environment.hpp"
#include "tests/common/error_of.hpp"

namespace tessera {
namespace communicators_test {

ComponentInfo info(std::string type, std::string memory_kind, CommunicatorReach reach) {
  ComponentInfo info;
  info.kind = Communicator::kKind;
  info.type = std::move(type);
  info.memory_kind = std::move(memory_kind);
  info.reach = reach;
  return info;
}

// What "auto" may be where these are loaded.
AutoCommunicators among(const std::vector<ComponentInfo>& loaded, std::string_view memory_kind) {
  std::vector<const ComponentInfo*> list;
  for (const ComponentInfo& of : loaded) list.push_back(&of);
  return auto_communicators(list, memory_kind);
}

const AutoCommunicators kUsual{"shm", "gloo"};

TEST(AutoCommunicators, AreThoseThatStateTheMemoryAndWhomTheyJoin) {
  const std::vector<ComponentInfo> loaded = {
      info("threads", "host", CommunicatorReach::unstated),
      info("shared", "host", CommunicatorReach::one_host),
      info("wires", "host", CommunicatorReach::hosts),
      info("links", "cuda", CommunicatorReach::hosts),
  };
  const AutoCommunicators host = among(loaded, "host"), cuda = among(loaded, "cuda");
  EXPECT_EQ(host.within, "shared");
  EXPECT_EQ(host.between, "wires");
  EXPECT_EQ(cuda.within, "");
  EXPECT_EQ(cuda.between, "links");
  EXPECT_EQ(among(loaded, "rocm").between, "");
}

TEST(AutoCommunicators, AUserSaysWhichOfTwoThatStateTheSame) {
  EXPECT_EQ(
      testing::error_of([] {
        among({info("wires", "host", CommunicatorReach::hosts),
               info("fibres", "host", CommunicatorReach::hosts)},
              "host");
      }),
      "comm.type = \"auto\" may be \"wires\" or \"fibres\": both join ranks of several hosts, "
      "with tensors in memory of kind \"host\"; set comm.type to one of them");
}

TEST(Communicators, OneForAllHostsIsChosenWithinThemToo) {
  const AutoCommunicators links{"", "links"};
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"a", "a"}, {"a", "b"}, {"a", "b", "b"}}) {
    const auto chosen = choose_communicators("auto", hosts, links);
    EXPECT_EQ(chosen.type, "links");
    EXPECT_EQ(chosen.between, "");
  }
}

TEST(Communicators, HostsThatNothingJoinsAreAnError) {
  EXPECT_EQ(testing::error_of([] {
              choose_communicators("auto", {"a", "b"}, {"shm", ""});
            }),
            "comm.type = \"auto\" finds no communicator that joins 2 hosts; \"shm\" joins ranks of "
            "one: load the plugin of one (TESSERA_PLUGIN_PATH), or set comm.type");
}

TEST(Communicators, WhatIsConfiguredIsTaken) {
  const auto chosen = choose_communicators("mine", {"a", "a", "b", "b"}, kUsual);
  EXPECT_EQ(chosen.type, "mine");
  EXPECT_EQ(chosen.between, "");
}

TEST(Communicators, OneHost) {
  const auto chosen = choose_communicators("auto", {"a", "a", "a"}, kUsual);
  EXPECT_EQ(chosen.type, "shm");
  EXPECT_EQ(chosen.between, "");
  EXPECT_EQ(chosen.text, "shm");
}

TEST(Communicators, OneRankAHost) {
  const auto chosen = choose_communicators("auto", {"a", "b"}, kUsual);
  EXPECT_EQ(chosen.type, "gloo");
  EXPECT_EQ(chosen.between, "");
}

TEST(Communicators, SomeRanksShareAHost) {
  const auto chosen = choose_communicators("auto", {"a", "b", "c", "a"}, kUsual);
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
