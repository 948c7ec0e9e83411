// Which choices experts take: keep_choices, expert_choice.
#include <bit>

#include "kernels.hpp"
#include "orders.hpp"
#include "router.hpp"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;

__device__ i64 number_of_thread() { return static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x; }
LaunchShape shape_of(i64 elements) {
  return {.blocks = blocks_for(elements, kThreads), .threads = kThreads};
}

__global__ void fill_experts(i32* experts, i64 elements, i32 value) {
  const i64 i = number_of_thread();
  if (i < elements) experts[i] = value;
}

/// The choices of keep_choices, by expert.
struct Kept {
  ChoiceTiles of;
  const void* weights;  // optional
  bool doubles;         // of weights
  i64 limit, first, rows;
  bool per_sample;
  const i32 *order, *firsts;
  double* keys;  // weights in the order of `order`
  i64* ids;      // row ids in this order
  i32* kept;
};

__global__ void gather_keys(Kept kept) {
  const i64 place = number_of_thread();
  if (place >= kept.of.rows * kept.of.k) return;
  const i64 choice = kept.order[place];
  double key = 0;
  if (kept.weights != nullptr) {
    key = kept.doubles ? static_cast<const double*>(kept.weights)[choice]
                       : static_cast<const float*>(kept.weights)[choice];
    if (key != key) key = -std::numeric_limits<double>::infinity();
  }
  kept.keys[place] = key;
  kept.ids[place] = kept.of.row_ids[choice / kept.of.k];
}

/// A thread takes a choice and counts those that its expert would take before it. Neighbours look
/// at the same ones at the same time.
__global__ void keep_choices(Kept kept) {
  const i64 place = number_of_thread();
  const ChoiceTiles& of = kept.of;
  if (place >= of.rows * of.k) return;
  const i64 choice = kept.order[place], expert = of.key(choice);
  const i64 to = choice - kept.first * of.k;
  if (expert == of.all || to < 0 || to >= kept.rows * of.k) return;
  const double key = kept.keys[place];
  const i64 id = kept.ids[place], sample = row_sample(id), end = kept.firsts[expert + 1];
  i64 before = 0;
  for (i64 other = kept.firsts[expert]; other < end && before < kept.limit; ++other) {
    const i64 there = kept.ids[other];
    if (kept.per_sample && row_sample(there) != sample) continue;
    const bool equal = kept.keys[other] == key;
    const bool sooner = there < id || (there == id && other < place);
    if (kept.keys[other] > key || (equal && sooner)) ++before;
  }
  if (before < kept.limit) kept.kept[to] = static_cast<i32>(expert);
}

/// The workspace of keep_choices.
struct KeepMemory {
  i64 choices, entries, keys;
  explicit KeepMemory(const KeepChoicesArgs& args)
      : choices(args.experts.elements()),
        entries(sort_entries(ChoiceTiles(args.experts, args.all))),
        keys(args.all + 1) {}
  i64 bytes() const {
    return choices * static_cast<i64>(sizeof(double) + sizeof(i64) + 2 * sizeof(i32)) +
           (keys + entries) * static_cast<i64>(sizeof(i32));
  }
};

/// What expert_choice works on: `length` positions of each sequence, and their softmax shares of
/// each expert.
struct ExpertChoice {
  const i64* positions;
  i64 rows, all, length, parts;
  i64 seen, taken;
  i64 first, n;  // rows of this rank
  u64* keys;     // [all, sequences, length]: shares as integers of their order
  i32* row_of;   // [sequences, length]
  i32* experts;
};

/// An integer that is in the order of doubles.
__device__ u64 ordered(double value) {
  const u64 bits = std::bit_cast<u64>(value);
  return (bits >> 63) != 0 ? ~bits : bits | (u64{1} << 63);
}

template <class T>
__global__ void share_keys(const T* logits, ExpertChoice of) {
  const i64 part = of.rows / of.parts, each = of.length / of.parts;
  for_rows_of_warp(of.rows, [&](i64 row) {
    const auto logit = [&](i64 e, bool&) {
      return static_cast<double>(widen(logits[row * of.all + e]));
    };
    const Softmax<double> softmax = softmax_of<double>(of.all, logit);
    const i64 position = of.positions[row], sequence = row % part / each;
    if (position < 0 || position >= of.length) return;  // of no sequence
    const i64 at = sequence * of.length + position;
    for_lane(of.all, [&](i64 e) {
      bool exists = true;
      // NaN comes last.
      const double share = softmax.sum == softmax.sum ? softmax(logit(e, exists)) : -1;
      of.keys[e * of.rows + at] = ordered(share);
    });
    if (lane_of_thread() == 0) of.row_of[at] = static_cast<i32>(row);
  });
}

/// The largest u64 of so many bits for which holds(value) is true, where that holds for 0 and for
/// all numbers below one for which it holds.
template <class Holds>
__device__ u64 last_that(int bits, Holds holds) {
  u64 value = 0;
  for (int bit = bits - 1; bit >= 0; --bit) {
    const u64 larger = value | (u64{1} << bit);
    if (holds(larger)) value = larger;
  }
  return value;
}

/// A block takes an expert of a sequence: finds the share of the last row that the expert takes,
/// bit by bit, then how far it goes among rows with this share.
__global__ void expert_choice(ExpertChoice of) {
  const i64 sequences = of.rows / of.length;
  for (i64 pair = blockIdx.x; pair < sequences * of.all; pair += gridDim.x) {
    const i64 expert = pair / sequences, sequence = pair % sequences;
    const u64* keys = of.keys + expert * of.rows + sequence * of.length;
    const auto count = [&](i64 end, auto condition) {
      i64 found = 0;
      for (i64 p = threadIdx.x; p < end; p += blockDim.x) found += condition(keys[p]) ? 1 : 0;
      return block_sum(found, &shared<i64>());
    };
    const u64 last = last_that(64, [&](u64 value) {
      return count(of.seen, [&](u64 key) { return key >= value; }) >= of.taken;
    });
    const i64 equals = of.taken - count(of.seen, [&](u64 key) { return key > last; });
    // The most positions that have no more than these.
    const i64 end = static_cast<i64>(last_that(63, [&](u64 value) {
      const i64 positions = static_cast<i64>(value);
      return positions <= of.seen &&
             count(positions, [&](u64 key) { return key == last; }) <= equals;
    }));
    for (i64 p = threadIdx.x; p < of.seen; p += blockDim.x) {
      const i64 own = of.row_of[sequence * of.length + p] - of.first;
      const bool takes = keys[p] > last || (keys[p] == last && p < end);
      if (takes && own >= 0 && own < of.n) {
        of.experts[own * of.all + expert] = static_cast<i32>(expert);
      }
    }
  }
}

}  // namespace

template <>
i64 Workspace<KeepChoicesArgs>::bytes(const KeepChoicesArgs& args) {
  return KeepMemory(args).bytes();
}

template <>
void run(const KeepChoicesArgs& args, void* workspace, cudaStream_t stream) {
  const KeepMemory memory(args);
  auto* keys = static_cast<double*>(workspace);
  auto* ids = reinterpret_cast<i64*>(keys + memory.choices);
  auto* order = reinterpret_cast<i32*>(ids + memory.choices);
  i32 *inverse = order + memory.choices, *firsts = inverse + memory.choices;
  i32* sorting = firsts + memory.keys;
  const ChoiceTiles of(args.experts, args.all, {}, args.row_ids.as<i64>());
  launch(fill_experts,
         shape_of(args.kept.elements()),
         stream,
         args.kept.as<i32>(),
         args.kept.elements(),
         static_cast<i32>(args.all));
  sort_choices(of, sorting, order, inverse, firsts, stream);
  const Kept kept{.of = of,
                  .weights = args.weights.rank > 0 ? args.weights.address : nullptr,
                  .doubles = args.weights.dtype == DType::fp64,
                  .limit = args.limit,
                  .first = args.first,
                  .rows = args.rows,
                  .per_sample = args.per_sample,
                  .order = order,
                  .firsts = firsts,
                  .keys = keys,
                  .ids = ids,
                  .kept = args.kept.as<i32>()};
  launch(gather_keys, shape_of(memory.choices), stream, kept);
  launch(keep_choices, shape_of(memory.choices), stream, kept);
}

template <>
i64 Workspace<ExpertChoiceArgs>::bytes(const ExpertChoiceArgs& args) {
  return args.logits.elements() * static_cast<i64>(sizeof(u64)) +
         args.logits.shape[0] * static_cast<i64>(sizeof(i32));
}

template <>
void run(const ExpertChoiceArgs& args, void* workspace, cudaStream_t stream) {
  const i64 seen = args.seen > 0 ? args.seen : args.length;
  ExpertChoice of{.positions = args.positions.as<i64>(),
                  .rows = args.logits.shape[0],
                  .all = args.logits.shape[1],
                  .length = args.length,
                  .parts = args.parts,
                  .seen = seen,
                  .taken = blocks_for(seen * args.rows, args.length),
                  .first = args.first,
                  .n = args.n,
                  .keys = static_cast<u64*>(workspace),
                  .row_of = nullptr,
                  .experts = args.experts.as<i32>()};
  of.row_of = reinterpret_cast<i32*>(of.keys + of.rows * of.all);
  const i64 choices = args.n * of.all;
  launch(fill_experts, shape_of(choices), stream, of.experts, choices, -1);
  if (of.taken == 0) return;
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    launch(share_keys<T>, router_shape(of.rows), stream, args.logits.as<T>(), of);
  });
  const i64 pairs = of.rows / of.length * of.all, most = 0x7fffffff;
  launch(expert_choice,
         {.blocks = std::min(pairs, most),
          .threads = kThreads,
          .shared_bytes = kThreads / kWarp * static_cast<i64>(sizeof(i64))},
         stream,
         of);
}

}  // namespace tessera::cuda
