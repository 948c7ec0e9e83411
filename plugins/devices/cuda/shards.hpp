#pragma once
// What for_each_shard.hpp is to devices whose memory the CPU addresses.
#include "gpu.hpp"

namespace tessera::cuda {

/// The tables of Shards (shards.hpp), in device memory.
struct ShardTable {
  struct Row {
    i64 length, grad, main, state;
    __device__ i64 end() const { return state + length; }
  };
  struct Hyper {
    double lr_scale, weight_decay;
  };
  const Row* rows;
  const Hyper* hyper;
  i64 count;

  ShardTable(const TensorArg& ranges, const TensorArg& hypers)
      : rows(ranges.as<const Row>()), hyper(hypers.as<const Hyper>()), count(ranges.shape[0]) {}
};

/// Neighbouring elements of one shard, and where they begin in each flat tensor.
struct ShardRun {
  i64 length, grad, main, state;
  ShardTable::Hyper hyper;
};

/// Elements that a block takes at a time.
inline constexpr i64 kShardChunk = 4096;

/// Calls body(run) so that every element of every shard is in one call of one block, whatever the
/// grid. Work is dealt out by places in the state, which has next to no gaps. All threads of a
/// block make the same calls.
template <class Body>
__device__ __forceinline__ void for_each_shard(const ShardTable& table, Body body) {
  if (table.count == 0) return;
  const i64 start = table.rows[0].state, stop = table.rows[table.count - 1].end();
  for (i64 chunk = blockIdx.x; start + chunk * kShardChunk < stop; chunk += gridDim.x) {
    const i64 begin = start + chunk * kShardChunk, end = begin + kShardChunk;
    i64 first = 0, last = table.count;  // the first shard that ends after `begin`
    while (first < last) {
      const i64 middle = (first + last) / 2;
      if (table.rows[middle].end() <= begin) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    for (i64 s = first; s < table.count; ++s) {
      const ShardTable::Row row = table.rows[s];
      if (row.state >= end) break;
      const i64 from = row.state > begin ? row.state : begin;
      const i64 to = row.end() < end ? row.end() : end;
      const i64 skipped = from - row.state;
      if (from < to) {
        body(ShardRun{to - from, row.grad + skipped, row.main + skipped, from, table.hyper[s]});
      }
    }
  }
}

/// Blocks for shards of at most so many elements.
constexpr i64 shard_blocks(i64 elements) {
  constexpr i64 kManyBlocks = 8 * kMultiprocessors;
  const i64 chunks = blocks_for(elements, kShardChunk) + 1;  // the state may have gaps
  return chunks < kManyBlocks ? chunks : kManyBlocks;
}

}  // namespace tessera::cuda
