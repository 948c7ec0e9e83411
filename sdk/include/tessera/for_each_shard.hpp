#pragma once
#include "tessera/parallel_for.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// Neighbouring elements of one shard (shards.hpp), and where they begin in each flat tensor.
struct ShardRun {
  i64 length = 0;
  i64 grad = 0;   ///< in gradients and compute values
  i64 main = 0;   ///< in main values
  i64 state = 0;  ///< in every state tensor
  double lr_scale = 1, weight_decay = 0;
};

/// For kernels of devices whose memory the CPU addresses: calls body(const ShardRun&) so that every
/// element of every shard is in one call, on this rank's threads. `ranges` and `hyper` as in
/// Shards. How elements are dealt to calls depends on the number of threads; body must not.
template <class Body>
void for_each_shard(const TensorArg& ranges, const TensorArg& hyper, i64 grain, Body&& body) {
  struct Row {
    i64 length, grad, main, state;
    i64 end() const { return state + length; }
  };
  const Row* rows = ranges.as<const Row>();
  const double* values = hyper.as<const double>();
  const i64 count = ranges.shape[0];
  if (count == 0) return;
  // Work is dealt out by places in the state, which has next to no gaps.
  const i64 start = rows[0].state;
  parallel_for(rows[count - 1].end() - start, grain, [&](i64 begin, i64 end) {
    begin += start;
    end += start;
    i64 first = 0, last = count;  // the first shard that ends after `begin`
    while (first < last) {
      const i64 middle = (first + last) / 2;
      if (rows[middle].end() <= begin) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    for (i64 s = first; s < count && rows[s].state < end; ++s) {
      const i64 from = rows[s].state > begin ? rows[s].state : begin;
      const i64 to = rows[s].end() < end ? rows[s].end() : end;
      if (from >= to) continue;
      const i64 skipped = from - rows[s].state;
      body(ShardRun{to - from,
                    rows[s].grad + skipped,
                    rows[s].main + skipped,
                    from,
                    values[2 * s],
                    values[2 * s + 1]});
    }
  });
}

}  // namespace tessera
