#pragma once
#include "tessera/error.hpp"
#include "tessera/for_each_shard.hpp"
#include "tessera/small_floats.hpp"

namespace tessera {

/// For kernels of update rules, on devices whose memory the CPU addresses: rounds the main values
/// of a run, `main` [run.length], to its compute values. Does nothing where compute is absent,
/// because main is what layers read. T: float or double.
template <class T>
void store_compute(const TensorArg& compute, const ShardRun& run, const T* main) {
  if (!compute) return;
  const auto round = [&]<class Stored>(Stored* to) {
    for (i64 i = 0; i < run.length; ++i) to[i] = static_cast<Stored>(main[i]);
  };
  switch (compute.dtype) {
    case DType::bf16:
      return round(compute.as<BFloat16>() + run.grad);
    case DType::fp16:
      return round(compute.as<Float16>() + run.grad);
    case DType::fp32:
      return round(compute.as<float>() + run.grad);
    case DType::fp64:
      return round(compute.as<double>() + run.grad);
    default:
      fail("compute values cannot be {}", dtype_name(compute.dtype));
  }
}

/// Calls `body` with a value of the type in which a rule keeps its state (optimizer.state_dtype):
/// fp32, fp64 or bf16. Each kind of value converts to and from float and double.
template <class Body>
void with_state(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::fp32:
      return body(float{});
    case DType::fp64:
      return body(double{});
    case DType::bf16:
      return body(BFloat16{});
    default:
      fail("the state of an update rule cannot be {}", dtype_name(dtype));
  }
}

}  // namespace tessera
