#include "tessera/base/parameter_memory.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace tessera {

namespace parameter_memory_test {

using ::testing::ElementsAre;

/// Parameters of these sizes, in model order.
struct Declared {
  explicit Declared(const std::vector<i64>& sizes) {
    for (const i64 size : sizes) {
      owned.push_back(std::make_unique<Parameter>());
      owned.back()->local = owned.back()->logical = {size};
      list.push_back(owned.back().get());
    }
  }
  std::vector<std::unique_ptr<Parameter>> owned;
  std::vector<Parameter*> list;
};

const ParameterBucket::Member& member_of(const ParameterBucket& bucket, const Parameter* p) {
  return *std::ranges::find(bucket.members, p, &ParameterBucket::Member::parameter);
}

// Four parameters in 16 elements on four ranks, in the order of memory: [0, 3), [3, 8), [8, 12),
// [12, 16). The second has one element on rank 0 and four on rank 1.
TEST(ParameterMemory, FourRangesOfTheDistributedOptimizer) {
  const Declared declared({4, 4, 5, 3});  // the buffer is in reverse order
  const ParameterMemory memory(declared.list,
                               {.elements = 1 << 20, .alignment = 1, .pad = 4, .dense = {4, 0}});
  ASSERT_EQ(memory.buckets().size(), 1U);
  const ParameterBucket& bucket = memory.buckets()[0];
  EXPECT_EQ(bucket.elements, 16);
  EXPECT_EQ(bucket.shards, 4);
  const std::map<std::pair<int, i64>, ShardRanges> expected = {
      // parameter in the order of memory, rank: world, local, param, bucket
      {{0, 0}, {{0, 3}, {0, 3}, {0, 3}, {0, 3}}},
      {{1, 0}, {{3, 1}, {3, 1}, {0, 1}, {3, 1}}},
      {{1, 1}, {{4, 4}, {0, 4}, {1, 4}, {4, 4}}},
      {{2, 2}, {{8, 4}, {0, 4}, {0, 4}, {8, 4}}},
      {{3, 3}, {{12, 4}, {0, 4}, {0, 4}, {12, 4}}},
  };
  for (int parameter = 0; parameter < 4; ++parameter) {
    const auto& member = member_of(bucket, declared.list[static_cast<std::size_t>(3 - parameter)]);
    for (i64 rank = 0; rank < 4; ++rank) {
      SCOPED_TRACE(fmt::format("parameter {}, rank {}", parameter, rank));
      const ShardRanges ranges = shard_ranges(bucket, member, rank);
      const auto found = expected.find({parameter, rank});
      const ShardRanges wanted = found == expected.end() ? ShardRanges{} : found->second;
      EXPECT_EQ(ranges.world, wanted.world);
      EXPECT_EQ(ranges.local, wanted.local);
      EXPECT_EQ(ranges.param, wanted.param);
      EXPECT_EQ(ranges.bucket, wanted.bucket);
    }
  }
}

// Megatron-Core's layout of 100, 300 and 50 elements with buckets of 256 on four ranks.
TEST(ParameterMemory, AlignsParametersAndPadsBuckets) {
  const Declared declared({100, 300, 50});
  const ParameterMemory memory(declared.list, {.elements = 256, .dense = {4, 1}});
  ASSERT_EQ(memory.buckets().size(), 2U);
  const ParameterBucket &first = memory.buckets()[0], &second = memory.buckets()[1];
  EXPECT_EQ(first.begin, 0);
  EXPECT_EQ(first.elements, 384);
  EXPECT_EQ(second.begin, 384);
  EXPECT_EQ(second.elements, 128);
  EXPECT_EQ(member_of(first, declared.list[2]).begin, 0);
  EXPECT_EQ(member_of(first, declared.list[1]).begin, 64);
  EXPECT_EQ(member_of(second, declared.list[0]).begin, 0);
  EXPECT_EQ(first.own_shard(), (FlatRange{96, 96}));
  EXPECT_EQ(second.own_begin, 96) << "after the shard of the first bucket";
  EXPECT_EQ(shard_ranges(second, second.members[0], 3).world, (FlatRange{480, 4}));
  EXPECT_EQ(shard_ranges(second, second.members[0], 3).bucket, (FlatRange{96, 4}));
}

TEST(ParameterMemory, BucketsThatAreNotCutAreAlignedAndNotPadded) {
  const Declared declared({100, 300, 50});
  const ParameterMemory memory(declared.list, {.elements = 256});
  EXPECT_EQ(memory.elements(), 384 + 128);
  EXPECT_EQ(memory.buckets()[0].shards, 1);
  EXPECT_EQ(memory.buckets()[0].own_shard(), (FlatRange{0, 384}));
}

TEST(ParameterMemory, ShardsAreEqualForAnyNumberOfReplicas) {
  const Declared declared({100, 300, 50});
  for (const i64 shards : {3, 5, 8, 96}) {
    const ParameterMemory memory(declared.list, {.elements = 256, .dense = {shards, shards - 1}});
    for (const ParameterBucket& bucket : memory.buckets()) {
      EXPECT_EQ(bucket.elements % shards, 0);
      EXPECT_EQ(bucket.elements % 128, 0);
      EXPECT_EQ(bucket.begin % 128, 0);
    }
  }
}

// Whole parameters, the largest first, each to the replica that has the fewest elements so far.
TEST(ParameterMemory, SharesOutWholeParameters) {
  const Declared declared({100, 300, 50, 120});
  const ParameterMemory memory(declared.list, {.elements = 256, .dense = {2, 1}, .whole = true});
  std::map<i64, std::pair<i64, FlatRange>> found;  // by size: the shard, and where it lies there
  for (const ParameterBucket& bucket : memory.buckets()) {
    for (const auto& member : bucket.members) {
      for (i64 shard = 0; shard < 2; ++shard) {
        const ShardRanges ranges = shard_ranges(bucket, member, shard);
        if (ranges.param.length == 0) continue;
        EXPECT_EQ(ranges.param, (FlatRange{0, member.parameter->local.elements()}));
        EXPECT_EQ(ranges.world.begin, bucket.begin + member.begin);
        const bool once = found.emplace(ranges.param.length, std::pair(shard, ranges.local)).second;
        EXPECT_TRUE(once) << "two replicas update one parameter";
      }
    }
  }
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[300].first, 0);
  for (const i64 other : {120, 100, 50}) EXPECT_EQ(found[other].first, 1);
  EXPECT_EQ(found[120].second, (FlatRange{0, 120})) << "in the order of memory";
  EXPECT_EQ(found[50].second, (FlatRange{128, 50}));
  EXPECT_EQ(found[100].second, (FlatRange{192, 100})) << "aligned";
}

}  // namespace parameter_memory_test
}  // namespace tessera
