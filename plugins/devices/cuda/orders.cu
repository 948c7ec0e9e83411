// Orders of choices by expert: expert_counts, sort_by_expert, pad_order, invert_order.
//
// A warp takes a tile of choices, 32 at a time. Lanes whose choices are of one expert find each
// other by votes, and the first of them moves the expert's number in the warp's own table: no
// atomics, and choices stay in their order.
#include "orders.hpp"

#include "kernels.hpp"
#include "warp_scan.hpp"

namespace tessera::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarp;

/// The lanes that have the same key. Keys are below 2^bits.
__device__ unsigned lanes_of(u32 key, int bits) {
  unsigned same = kAllLanes;
  for (int bit = 0; bit < bits; ++bit) {
    const bool set = ((key >> bit) & 1) != 0;
    const unsigned with = __ballot_sync(kAllLanes, set);
    same &= set ? with : ~with;
  }
  return same;
}

/// Calls f(choice, lanes with its key, table entry of its key) for 32 choices after the other, then
/// adds to the entry how many there were. The lanes of a warp are together between the two.
template <class F>
__device__ void for_choices(const ChoiceTiles& of, i64 begin, i64 end, i32* table, F f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (i64 first = begin; first < end; first += kWarp) {
    const i64 choice = first + lane;
    const bool here = choice < end;
    // One more key is for lanes without a choice.
    const i64 key = here ? of.key(choice) : of.keys;
    const unsigned same = lanes_of(static_cast<u32>(key), of.key_bits);
    if (here) f(choice, same, table[key]);
    __syncwarp();
    if (here && first_of(same) == lane) table[key] += count_of(same);
    __syncwarp();
  }
}

__device__ i32* table_of_warp(const ChoiceTiles& of) {
  return &shared<i32>() + static_cast<i64>(threadIdx.x / kWarp) * of.keys;
}

/// counts [sequences, keys, tiles]
__global__ void count_tiles(ChoiceTiles of, i32* counts) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const i64 tile = static_cast<i64>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (tile >= of.tiles) return;  // the whole warp
  i32* table = table_of_warp(of);
  for (i64 sequence = blockIdx.y; sequence < of.sequence.sequences; sequence += gridDim.y) {
    for (i64 key = lane; key < of.keys; key += kWarp) table[key] = 0;
    __syncwarp();
    i64 begin, end;
    of.range(sequence, tile, begin, end);
    for_choices(of, begin, end, table, [](i64, unsigned, i32) {});
    for (i64 key = lane; key < of.keys; key += kWarp) {
      counts[(sequence * of.keys + key) * of.tiles + tile] = table[key];
    }
    __syncwarp();
  }
}

/// A warp takes the tiles of one key of one sequence: places becomes what earlier tiles have, and
/// totals how many all have. What is no expert has no total in `counts`.
__global__ void add_tiles(ChoiceTiles of, i32* tiles, i64* counts, bool add, i32* totals) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const i64 row = static_cast<i64>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (row >= of.sequence.sequences * of.keys) return;  // the whole warp
  i64 total = 0;
  for (i64 begin = 0; begin < of.tiles; begin += kWarp) {
    const bool here = begin + lane < of.tiles;
    i32* place = tiles + row * of.tiles + begin + lane;
    const i64 value = here ? *place : 0, end = sum_up_to_lane(value);
    if (here) *place = static_cast<i32>(total + end - value);
    total += __shfl_sync(kAllLanes, end, kWarp - 1);
  }
  if (lane != 0) return;
  const i64 key = row % of.keys;
  if (totals != nullptr) totals[row] = static_cast<i32>(total);
  if (counts == nullptr || key == of.all) return;
  i64& count = counts[row / of.keys * of.all + key];
  count = add ? count + total : total;
}

__global__ void sort_by_expert(
    ChoiceTiles of, const i32* places, const i32* totals, i32* order, i32* inverse, i32* firsts) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const i64 tile = static_cast<i64>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (tile >= of.tiles) return;  // the whole warp
  i32* table = table_of_warp(of);
  i64 before = 0;  // choices of lower keys
  for (i64 first = 0; first < of.keys; first += kWarp) {
    const i64 key = first + lane;
    const i64 value = key < of.keys ? totals[key] : 0, end = sum_up_to_lane(value);
    if (key < of.keys) {
      const i32 begin = static_cast<i32>(before + end - value);
      table[key] = begin + places[key * of.tiles + tile];
      if (tile == 0 && firsts != nullptr) firsts[key] = begin;
    }
    before += __shfl_sync(kAllLanes, end, kWarp - 1);
  }
  __syncwarp();
  i64 begin, end;
  of.range(0, tile, begin, end);
  for_choices(of, begin, end, table, [&](i64 choice, unsigned same, i32 place) {
    place += count_of(same & ((1U << lane) - 1));
    order[place] = static_cast<i32>(choice);
    inverse[choice] = place;
  });
}

/// A block takes an expert.
__global__ void pad_order(
    const i32* order, i64 choices, const i64* counts, i64 all, i32* padded, i64 places) {
  for (i64 expert = blockIdx.x; expert < all; expert += gridDim.x) {
    const auto at_most = [](i64 count, i64 most) { return count < most ? count : most; };
    const auto fitting = [&](i64 e) { return counts[e] < 0 ? 0 : at_most(counts[e], choices); };
    i64 begin = 0;
    for (i64 e = threadIdx.x; e < expert; e += blockDim.x) begin += fitting(e);
    begin = at_most(block_sum(begin, &shared<i64>()), choices);
    const i64 count = at_most(fitting(expert), choices - begin);
    for (i64 i = threadIdx.x; i < places; i += blockDim.x) {
      padded[expert * places + i] = i < count ? order[begin + i] : -1;
    }
  }
}

__global__ void clear_order(i32* inverse, i64 size) {
  const i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < size) inverse[i] = -1;
}

__global__ void invert_order(const i32* order, i64 entries, i32* inverse, i64 size) {
  const i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < entries && order[i] >= 0 && order[i] < size) inverse[order[i]] = static_cast<i32>(i);
}

void count_choices(const ChoiceTiles& of, i32* tiles, cudaStream_t stream) {
  launch(count_tiles,
         {.blocks = blocks_for(of.tiles, kWarps),
          .rows = std::min<i64>(of.sequence.sequences, 65535),
          .threads = kThreads,
          .shared_bytes = kWarps * of.keys * static_cast<i64>(sizeof(i32))},
         stream,
         of,
         tiles);
}

LaunchShape tables_shape(const ChoiceTiles& of) {
  return {.blocks = blocks_for(of.sequence.sequences * of.keys, kWarps), .threads = kThreads};
}

i64 bytes_of(i64 entries) { return entries * static_cast<i64>(sizeof(i32)); }

}  // namespace

void sort_choices(const ChoiceTiles& of,
                  i32* workspace,
                  i32* order,
                  i32* inverse,
                  i32* firsts,
                  cudaStream_t stream) {
  if (of.tiles == 0) return;
  i32 *totals = workspace, *tiles = totals + of.keys;
  count_choices(of, tiles, stream);
  launch(add_tiles, tables_shape(of), stream, of, tiles, static_cast<i64*>(nullptr), false, totals);
  launch(sort_by_expert,
         {.blocks = blocks_for(of.tiles, kWarps),
          .threads = kThreads,
          .shared_bytes = kWarps * of.keys * static_cast<i64>(sizeof(i32))},
         stream,
         of,
         tiles,
         totals,
         order,
         inverse,
         firsts);
}

template <>
i64 Workspace<ExpertCountsArgs>::bytes(const ExpertCountsArgs& args) {
  return bytes_of(ChoiceTiles(args.experts, args.all, args.rows).entries());
}

template <>
void run(const ExpertCountsArgs& args, void* workspace, cudaStream_t stream) {
  const ChoiceTiles of(args.experts, args.all, args.rows);
  auto* tiles = static_cast<i32*>(workspace);
  count_choices(of, tiles, stream);
  launch(add_tiles,
         tables_shape(of),
         stream,
         of,
         tiles,
         args.counts.as<i64>(),
         args.add,
         static_cast<i32*>(nullptr));
}

template <>
i64 Workspace<SortByExpertArgs>::bytes(const SortByExpertArgs& args) {
  return bytes_of(sort_entries(ChoiceTiles(args.experts, args.all)));
}

template <>
void run(const SortByExpertArgs& args, void* workspace, cudaStream_t stream) {
  sort_choices(ChoiceTiles(args.experts, args.all),
               static_cast<i32*>(workspace),
               args.order.as<i32>(),
               args.inverse.as<i32>(),
               nullptr,
               stream);
}

template <>
void run(const PadOrderArgs& args, void*, cudaStream_t stream) {
  const i64 all = args.counts.shape[0];
  launch(
      pad_order,
      {.blocks = all, .threads = 256, .shared_bytes = 256 / kWarp * static_cast<i64>(sizeof(i64))},
      stream,
      args.order.as<i32>(),
      args.order.shape[0],
      args.counts.as<i64>(),
      all,
      args.padded.as<i32>(),
      args.places);
}

template <>
void run(const InvertOrderArgs& args, void*, cudaStream_t stream) {
  const i64 entries = args.order.elements();
  launch(clear_order,
         {.blocks = blocks_for(args.size, 256)},
         stream,
         args.inverse.as<i32>(),
         args.size);
  launch(invert_order,
         {.blocks = blocks_for(entries, 256)},
         stream,
         args.order.as<i32>(),
         entries,
         args.inverse.as<i32>(),
         args.size);
}

}  // namespace tessera::cuda
