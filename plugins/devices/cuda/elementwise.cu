// Operations on dense tensors, element by element.
#include "activations.hpp"
#include "kernels.hpp"
#include "packs.hpp"
#include "tessera/ops/elementwise.hpp"

namespace tessera::cuda {

// What is computed. With a name, because kernels take them as template arguments.
namespace elementwise {

struct Add {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a + b;
  }
};

struct Multiply {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a * b;
  }
};

struct Scale {
  double factor;
  template <class C>
  __device__ C operator()(C x) const {
    return static_cast<C>(factor) * x;
  }
};

struct Gelu {
  template <class C>
  __device__ C operator()(C x) const {
    return gelu(x).value;
  }
};

struct GeluSlope {
  template <class C>
  __device__ C operator()(C grad, C x) const {
    return grad * gelu(x).derivative;
  }
};

struct GeluErf {
  template <class C>
  __device__ C operator()(C x) const {
    return gelu_erf(x).value;
  }
};

struct Tanh {
  template <class C>
  __device__ C operator()(C x) const {
    return tanh_slope(x).value;
  }
};

struct TanhSlope {
  template <class C>
  __device__ C operator()(C grad, C x) const {
    return grad * tanh_slope(x).derivative;
  }
};

struct GeluErfSlope {
  template <class C>
  __device__ C operator()(C grad, C x) const {
    return grad * gelu_erf(x).derivative;
  }
};

}  // namespace elementwise

namespace {

constexpr int kThreads = 256;

template <class F, class T>
__global__ void unary(F f, const T* x, T* out, i64 elements, bool whole) {
  constexpr int kN = kPack<T>;
  const i64 i = (static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x) * kN;
  if (i >= elements) return;
  Compute<T> values[kN];
  load(values, x + i, elements - i, whole);
  for (int n = 0; n < kN; ++n) values[n] = f(values[n]);
  store(out + i, values, elements - i, whole);
}

template <class F, class T>
__global__ void binary(F f, const T* a, const T* b, T* out, i64 elements, bool whole) {
  constexpr int kN = kPack<T>;
  const i64 i = (static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x) * kN;
  if (i >= elements) return;
  Compute<T> left[kN], right[kN];
  load(left, a + i, elements - i, whole);
  load(right, b + i, elements - i, whole);
  for (int n = 0; n < kN; ++n) left[n] = f(left[n], right[n]);
  store(out + i, left, elements - i, whole);
}

template <class T>
LaunchShape shape_of(i64 elements) {
  return {.blocks = blocks_for(elements, kThreads * kPack<T>), .threads = kThreads};
}

template <class Args, class F>
void run_unary(const Args& args, F f, cudaStream_t stream) {
  with_floating(Args::kName, args.out.dtype, [&]<class T>(T) {
    const T* x = args.x.template as<const T>();
    T* out = args.out.template as<T>();
    const i64 elements = args.out.elements();
    launch(unary<F, T>,
           shape_of<T>(elements),
           stream,
           f,
           x,
           out,
           elements,
           aligned(x) && aligned(out));
  });
}

template <class F>
void run_binary(std::string_view operation,
                const TensorArg& left,
                const TensorArg& right,
                const TensorArg& result,
                cudaStream_t stream) {
  with_floating(operation, result.dtype, [&]<class T>(T) {
    const T *a = left.as<const T>(), *b = right.as<const T>();
    T* out = result.as<T>();
    const i64 elements = result.elements();
    launch(binary<F, T>,
           shape_of<T>(elements),
           stream,
           F{},
           a,
           b,
           out,
           elements,
           aligned(a) && aligned(b) && aligned(out));
  });
}

}  // namespace

template <>
void run(const AddArgs& args, void*, cudaStream_t stream) {
  run_binary<elementwise::Add>(args.kName, args.a, args.b, args.out, stream);
}

template <>
void run(const MultiplyArgs& args, void*, cudaStream_t stream) {
  run_binary<elementwise::Multiply>(args.kName, args.a, args.b, args.out, stream);
}

template <>
void run(const ScaleArgs& args, void*, cudaStream_t stream) {
  run_unary(args, elementwise::Scale{args.factor}, stream);
}

template <>
void run(const GeluArgs& args, void*, cudaStream_t stream) {
  run_unary(args, elementwise::Gelu{}, stream);
}

template <>
void run(const GeluBackwardArgs& args, void*, cudaStream_t stream) {
  run_binary<elementwise::GeluSlope>(args.kName, args.grad, args.x, args.out, stream);
}

template <>
void run(const GeluErfArgs& args, void*, cudaStream_t stream) {
  run_unary(args, elementwise::GeluErf{}, stream);
}

template <>
void run(const TanhArgs& args, void*, cudaStream_t stream) {
  run_unary(args, elementwise::Tanh{}, stream);
}

template <>
void run(const TanhBackwardArgs& args, void*, cudaStream_t stream) {
  run_binary<elementwise::TanhSlope>(args.kName, args.grad, args.x, args.out, stream);
}

template <>
void run(const GeluErfBackwardArgs& args, void*, cudaStream_t stream) {
  run_binary<elementwise::GeluErfSlope>(args.kName, args.grad, args.x, args.out, stream);
}

}  // namespace tessera::cuda
