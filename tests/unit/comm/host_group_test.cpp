// What all groups whose collectives the CPU carries out share: tickets, places in errors, what
// members must agree on, slices, memory for sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/device/collective_call.hpp"
#include "tessera/device/host_comm.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/device/host_reduce.hpp"
#include "tessera/device/scratch_pool.hpp"

namespace tessera {
namespace host_group_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Recorder final : public HostGroup {
 public:
  Recorder(Device& device, const std::string& name)
      : HostGroup(device, {.name = name, .members = {4, 6}, .index = 1}, 6) {}
  void do_post(const Posted& posted) override {
    if (broken) fail("the wire is cut");
    tickets.push_back(posted.ticket);
    places.push_back(posted.place.text());
  }
  void do_finish(Ticket ticket, Until until) override {
    if (broken) fail("the wire is cut");
    waits.emplace_back(ticket, until);
  }

  bool broken = false;
  std::vector<Ticket> tickets;
  std::vector<std::string> places;
  std::vector<std::pair<Ticket, Until>> waits;
};

Collective collective_of(CollectiveKind kind) {
  Collective collective;
  collective.kind = kind;
  collective.name = "x";
  return collective;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(HostGroup, NumbersWhatItPosts) {
  HostDevice device("test", {}, {});
  Recorder tp(device, "tp"), dp(device, "dp");
  const auto first = tp.post(collective_of(CollectiveKind::all_reduce));
  const auto second = dp.post(collective_of(CollectiveKind::barrier));
  const auto third = tp.post(collective_of(CollectiveKind::exchange));
  const auto fourth = tp.post(collective_of(CollectiveKind::all_gather));
  EXPECT_LT(0U, first);
  EXPECT_LT(first, second);  // whatever the group
  EXPECT_LT(second, third);
  EXPECT_LT(third, fourth);
  EXPECT_THAT(tp.tickets, ElementsAre(first, third, fourth));
  // Transfers have numbers for each pair of ranks instead.
  EXPECT_THAT(tp.places,
              ElementsAre("rank 6, group tp: all_reduce \"x\" #0",
                          "rank 6, group tp: exchange \"x\"",
                          "rank 6, group tp: all_gather \"x\" #1"));
  EXPECT_THAT(dp.places, ElementsAre("rank 6, group dp: barrier \"x\" #0"));
  tp.finish(third, Until::received);
  tp.finish(third);
  EXPECT_THAT(tp.waits,
              ElementsAre(std::pair{third, Until::received}, std::pair{third, Until::complete}));
}

TEST(HostGroup, WhatWasNotPostedIsNotWaitedFor) {
  HostDevice device("test", {}, {});
  Recorder group(device, "tp");
  for (const Until until : {Until::complete, Until::received}) {
    EXPECT_THAT(error_of([&] { group.finish(0, until); }),
                HasSubstr("a collective was waited for before it was posted"));
  }
  group.broken = true;  // then nothing could be posted: the cause is what counts
  EXPECT_THAT(error_of([&] { group.post(collective_of(CollectiveKind::all_reduce)); }),
              HasSubstr("the wire is cut"));
  EXPECT_THAT(error_of([&] { group.finish(0); }), HasSubstr("the wire is cut"));
}

TEST(HostGroup, AWaitInVainBlamesAPeer) {
  const Error error = timed_out(std::chrono::milliseconds(2040), "rank 3 has not come");
  EXPECT_EQ(error.text(), "timed out after 2.0 s: rank 3 has not come");
  EXPECT_EQ(error.kind(), ErrorKind::peer_silent);
}

TEST(CollectiveCall, MembersAgreeOnEverything) {
  const CollectiveCall call{400, CollectiveKind::all_reduce, DType::fp32, ReduceOp::sum, 0, "x"};
  EXPECT_EQ(call.text(), "all_reduce \"x\" of 400 bytes fp32, sum");
  std::vector<CollectiveCall> others(6, call);
  others[0].bytes = 404;
  others[1].kind = CollectiveKind::reduce_scatter;
  others[2].dtype = DType::i32;
  others[3].op = ReduceOp::max;
  others[4].root = 1;
  others[5].name = "y";
  for (const CollectiveCall& other : others) {
    EXPECT_FALSE(other == call) << other.text();
    EXPECT_NE(other.hash(), call.hash()) << other.text();
  }
  EXPECT_EQ(others[3].text(), "all_reduce \"x\" of 400 bytes fp32, max");
  EXPECT_EQ(others[1].text(), "reduce_scatter \"x\" of 400 bytes fp32, sum");
  others[4].kind = CollectiveKind::broadcast;
  EXPECT_EQ(others[4].text(), "broadcast \"x\" of 400 bytes fp32 from member 1");
  others[4].kind = CollectiveKind::barrier;
  EXPECT_EQ(others[4].text(), "barrier \"x\"");
}

TEST(CollectiveCall, EndsOfATransferAgreeOnItsSize) {
  const CollectiveCall sent{8, CollectiveKind::exchange, DType::bf16, ReduceOp::sum, 0, "there"};
  CollectiveCall expected{8, CollectiveKind::exchange, DType::bf16};
  EXPECT_TRUE(sent == expected);
  EXPECT_EQ(sent.hash(), expected.hash());
  EXPECT_EQ(sent.text(), "exchange \"there\" of 8 bytes bf16");
  EXPECT_EQ(expected.text(), "exchange of 8 bytes bf16");
  expected.kind = CollectiveKind::all_to_all;
  EXPECT_FALSE(sent == expected);
  EXPECT_NE(sent.hash(), expected.hash());
  expected = sent;
  expected.dtype = DType::fp16;
  EXPECT_FALSE(sent == expected);
  EXPECT_NE(sent.hash(), expected.hash());
}

TEST(SliceOf, CutsAtCacheLinesAndLeavesNothingOut) {
  for (const i64 parts : {1, 2, 3, 8}) {
    for (const i64 bytes : {0, 2, 64, 130, 192, 194, 4096, 100'002}) {
      i64 end = 0;
      for (i64 part = 0; part < parts; ++part) {
        const ByteRange slice = slice_of(bytes, parts, part);
        EXPECT_EQ(slice.begin, end) << bytes << " bytes, part " << part << " of " << parts;
        EXPECT_GE(slice.bytes, 0);
        EXPECT_LE(slice.bytes, slice_of(bytes, parts, 0).bytes) << "the first is the largest";
        if (end < bytes) EXPECT_EQ(slice.begin % 64, 0);
        end = slice.begin + slice.bytes;
      }
      EXPECT_EQ(end, bytes) << parts << " parts";
    }
  }
  EXPECT_EQ(slice_of(4096, 2, 1).begin, 2048);
  EXPECT_EQ(slice_of(4100, 2, 1).begin, 2112);
}

TEST(ScratchPool, GivesTheSmallestThatFits) {
  ScratchPool pool;
  const std::byte *small = nullptr, *large = nullptr;
  {
    const auto first = pool.take(1000), second = pool.take(1500);
    small = first.data();
    large = second.data();
    EXPECT_NE(small, large);
  }
  EXPECT_EQ(pool.take(900).data(), small);
  const auto taken = pool.take(900);
  EXPECT_EQ(taken.data(), small);
  EXPECT_EQ(pool.take(900).data(), large);  // the next one that fits
  EXPECT_NE(pool.take(700).data(), large);  // more than twice the size is left to others
}

}  // namespace host_group_test
}  // namespace tessera
