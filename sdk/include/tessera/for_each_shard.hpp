#pragma once
#include "tessera/parallel_for.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// For kernels of devices whose memory the CPU addresses: calls body(begin, end, lr_scale,
/// weight_decay) so that every element of every shard is in one call, on this rank's threads.
/// `ranges` and `hyper` as in Shards (shards.hpp). How elements are dealt to calls depends on the
/// number of threads; body must not.
template <class Body>
void for_each_shard(const TensorArg& ranges, const TensorArg& hyper, i64 grain, Body&& body) {
  const i64* range = ranges.as<const i64>();
  const double* values = hyper.as<const double>();
  const i64 count = ranges.shape[0];
  if (count == 0) return;
  const auto end_of = [=](i64 shard) { return range[2 * shard] + range[2 * shard + 1]; };
  parallel_for(end_of(count - 1), grain, [&](i64 begin, i64 end) {
    i64 first = 0, last = count;  // the first shard that ends after `begin`
    while (first < last) {
      const i64 middle = (first + last) / 2;
      if (end_of(middle) <= begin) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    for (i64 s = first; s < count && range[2 * s] < end; ++s) {
      const i64 from = range[2 * s] > begin ? range[2 * s] : begin;
      const i64 to = end_of(s) < end ? end_of(s) : end;
      if (from < to) body(from, to, values[2 * s], values[2 * s + 1]);
    }
  });
}

}  // namespace tessera
