#pragma once
#include "tessera/for_each_shard.hpp"
#include "tessera/with_type.hpp"

namespace tessera {

/// For kernels of update rules, on devices whose memory the CPU addresses: rounds the main values
/// of a run, `main` [run.length], to its compute values. Does nothing where compute is absent,
/// because main is what layers read. T: float or double.
template <class T>
void store_compute(const TensorArg& compute, const ShardRun& run, const T* main) {
  if (!compute) return;
  with_floating("store_compute", compute.dtype, [&]<class Stored>(Stored) {
    Stored* to = compute.as<Stored>() + run.grad;
    for (i64 i = 0; i < run.length; ++i) to[i] = static_cast<Stored>(main[i]);
  });
}

}  // namespace tessera
