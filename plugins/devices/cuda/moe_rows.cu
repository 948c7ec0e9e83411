// Rows on the way to experts and back: permute_rows, unpermute_rows, weighted_activation and its
// gradient.
#include "activations.hpp"
#include "kernels.hpp"
#include "packs.hpp"
#include "tessera/ops/moe.hpp"

namespace tessera::cuda {
namespace {

/// Unit: some neighbouring elements as one. out[i] = row order[i] / k, or 0.
template <class Unit>
__global__ void permute_rows(
    const Unit* x, i64 x_rows, const i32* order, i64 k, Unit* out, i64 rows, i64 units) {
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const i64 from = order[row] / k;
    const bool filled = order[row] >= 0 && from < x_rows;
    for (i64 j = threadIdx.x; j < units; j += blockDim.x) {
      out[row * units + j] = filled ? x[from * units + j] : Unit{};
    }
  }
}

template <class Unit>
bool permute_by(const PermuteRowsArgs& args, cudaStream_t stream) {
  constexpr i64 kUnit = sizeof(Unit);
  const auto at_unit = [](const TensorArg& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.address) % kUnit == 0;
  };
  const i64 bytes = args.x.shape[1] * dtype_size(args.x.dtype);
  if (bytes % kUnit != 0 || !at_unit(args.x) || !at_unit(args.out)) return false;
  const i64 rows = args.order.shape[0];
  launch(permute_rows<Unit>,
         {.blocks = blocks_of_rows(rows), .threads = threads_for(bytes / kUnit)},
         stream,
         args.x.as<Unit>(),
         args.x.shape[0],
         args.order.as<i32>(),
         args.k,
         args.out.as<Unit>(),
         rows,
         bytes / kUnit);
  return true;
}

template <class T>
__global__ void unpermute_rows(
    const T* y, i64 y_rows, const i32* inverse, i64 k, T* out, i64 rows, i64 width, bool whole) {
  using C = Compute<T>;
  constexpr int kN = kPack<T>;
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    for_packs<kN>(width, [&](i64 j, i64 count) {
      C sums[kN] = {}, values[kN];
      for (i64 c = 0; c < k; ++c) {
        const i64 from = inverse[row * k + c];
        if (from < 0 || from >= y_rows) continue;
        load(values, y + from * width + j, count, whole);
        for (int n = 0; n < kN; ++n) sums[n] += values[n];
      }
      store(out + row * width + j, sums, count, whole);
    });
  }
}

template <class T>
struct Activated {
  const T* x;
  const Compute<T>* weights;  // optional: 1
  T* out;
  i64 rows, width;  // of out
  bool whole;
};

template <Activation kActivation, class C>
__device__ __forceinline__ Slope<C> slope_of(C x) {
  if constexpr (kActivation == Activation::swiglu) {
    return silu(x);
  } else {
    return gelu(x);
  }
}

/// Calls f with the activation as a constant: `[&]<Activation kActivation>() { … }`.
template <class F>
void with_activation(Activation activation, F&& f) {
  switch (activation) {
    case Activation::swiglu:
      return f.template operator()<Activation::swiglu>();
    case Activation::gelu:
      return f.template operator()<Activation::gelu>();
    case Activation::geglu:
      return f.template operator()<Activation::geglu>();
  }
}

template <class T, Activation kActivation>
__global__ void weighted_activation(Activated<T> of) {
  using C = Compute<T>;
  constexpr int kN = kPack<T>;
  constexpr bool kGated = is_gated(kActivation);
  for (i64 row = blockIdx.x; row < of.rows; row += gridDim.x) {
    const C weight = of.weights != nullptr ? of.weights[row] : C(1);
    const T* x = of.x + row * of.width * (kGated ? 2 : 1);
    for_packs<kN>(of.width, [&](i64 j, i64 count) {
      C values[kN], ups[kN];
      load(values, x + j, count, of.whole);
      if constexpr (kGated) load(ups, x + of.width + j, count, of.whole);
      for (int n = 0; n < kN; ++n) {
        C value = slope_of<kActivation>(values[n]).value;
        if constexpr (kGated) value *= ups[n];
        values[n] = weight * value;
      }
      store(of.out + row * of.width + j, values, count, of.whole);
    });
  }
}

template <class T>
struct ActivatedGradient {
  const T *grad, *x;
  const Compute<T>* weights;  // optional: 1
  T* x_grad;
  Compute<T>* weights_grad;  // with weights
  i64 rows, width;           // of grad
  bool whole;
};

template <class T, Activation kActivation>
__global__ void weighted_activation_backward(ActivatedGradient<T> of) {
  using C = Compute<T>;
  constexpr int kN = kPack<T>;
  constexpr bool kGated = is_gated(kActivation);
  for (i64 row = blockIdx.x; row < of.rows; row += gridDim.x) {
    const C weight = of.weights != nullptr ? of.weights[row] : C(1);
    const i64 begin = row * of.width * (kGated ? 2 : 1);
    C sum = 0;
    for_packs<kN>(of.width, [&](i64 j, i64 count) {
      C grads[kN], values[kN], ups[kN] = {};
      load(grads, of.grad + row * of.width + j, count, of.whole);
      load(values, of.x + begin + j, count, of.whole);
      if constexpr (kGated) load(ups, of.x + begin + of.width + j, count, of.whole);
      for (int n = 0; n < kN; ++n) {
        const Slope<C> slope = slope_of<kActivation>(values[n]);
        const C up = kGated ? ups[n] : C(1), g = weight * grads[n];
        sum += grads[n] * (slope.value * up);
        values[n] = g * slope.derivative * up;
        ups[n] = g * slope.value;
      }
      store(of.x_grad + begin + j, values, count, of.whole);
      if constexpr (kGated) store(of.x_grad + begin + of.width + j, ups, count, of.whole);
    });
    if (of.weights_grad == nullptr) continue;
    sum = block_sum(sum, &shared<C>());
    if (threadIdx.x == 0) of.weights_grad[row] = sum;
  }
}

template <class T>
LaunchShape shape_of(i64 rows, i64 width) {
  const int threads = threads_for(blocks_for(width, kPack<T>));
  return {.blocks = blocks_of_rows(rows),
          .threads = threads,
          .shared_bytes = threads / kWarp * static_cast<i64>(sizeof(Compute<T>))};
}

/// Rows of this width, and of twice it, begin where packs do.
template <class T>
bool fits(const TensorArg& tensor, i64 width) {
  return aligned(tensor.as<T>()) && width % kPack<T> == 0;
}

}  // namespace

template <>
void run(const PermuteRowsArgs& args, void*, cudaStream_t stream) {
  permute_by<Sixteen>(args, stream) || permute_by<u64>(args, stream) ||
      permute_by<u32>(args, stream) || permute_by<std::uint16_t>(args, stream) ||
      permute_by<u8>(args, stream);
}

template <>
void run(const UnpermuteRowsArgs& args, void*, cudaStream_t stream) {
  const i64 rows = args.out.shape[0], width = args.out.shape[1];
  with_floating(args.kName, args.y.dtype, [&]<class T>(T) {
    launch(unpermute_rows<T>,
           {.blocks = blocks_of_rows(rows), .threads = threads_for(blocks_for(width, kPack<T>))},
           stream,
           args.y.as<T>(),
           args.y.shape[0],
           args.inverse.as<i32>(),
           args.inverse.shape[1],
           args.out.as<T>(),
           rows,
           width,
           fits<T>(args.y, width) && fits<T>(args.out, width));
  });
}

template <>
void run(const WeightedActivationArgs& args, void*, cudaStream_t stream) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const i64 rows = args.out.shape[0], width = args.out.shape[1];
    const Activated<T> of{.x = args.x.as<T>(),
                          .weights = args.weights.as<Compute<T>>(),
                          .out = args.out.as<T>(),
                          .rows = rows,
                          .width = width,
                          .whole = fits<T>(args.x, width) && fits<T>(args.out, width)};
    const LaunchShape shape = shape_of<T>(rows, width);
    with_activation(args.activation, [&]<Activation kActivation>() {
      launch(weighted_activation<T, kActivation>, shape, stream, of);
    });
  });
}

template <>
void run(const WeightedActivationBackwardArgs& args, void*, cudaStream_t stream) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const i64 rows = args.grad.shape[0], width = args.grad.shape[1];
    const ActivatedGradient<T> of{
        .grad = args.grad.as<T>(),
        .x = args.x.as<T>(),
        .weights = args.weights.as<Compute<T>>(),
        .x_grad = args.x_grad.as<T>(),
        .weights_grad = args.weights ? args.weights_grad.as<Compute<T>>() : nullptr,
        .rows = rows,
        .width = width,
        .whole =
            fits<T>(args.grad, width) && fits<T>(args.x, width) && fits<T>(args.x_grad, width)};
    const LaunchShape shape = shape_of<T>(rows, width);
    with_activation(args.activation, [&]<Activation kActivation>() {
      launch(weighted_activation_backward<T, kActivation>, shape, stream, of);
    });
  });
}

}  // namespace tessera::cuda
