#include "simd/gelu.hpp"
#include "simd/gelu_erf.hpp"
#include "simd/kernels_of_isa.hpp"
#include "simd/storage.hpp"
#include "simd/tanh.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

// Elements a thread must have to be worth waking.
constexpr i64 kGrain = 16384;

/// out[i] = f(inputs[i]…) over dense tensors of one shape, stored as T. Works in place.
template <class T, class Op, class... Input>
void map_as(const TensorArg& out, Op op, const Input&... inputs) {
  const auto run = [n = out.elements(), op](T* to, auto... from) {
    parallel_for(n, kGrain, [=](i64 begin, i64 end) {
      for_vectors(end - begin, [=](i64 offset, auto count) {
        const i64 i = begin + offset;
        store(to + i, op(load(from + i, count)...), count);
      });
    });
  };
  run(out.as<T>(), inputs.template as<const T>()...);
}

/// The same for tensors of any dtype.
template <class Op, class... Input>
void map(const TensorArg& out, Op op, const Input&... inputs) {
  with_storage(out.dtype, [&]<class T>(T) { map_as<T>(out, op, inputs...); });
}

}  // namespace

// fp64 too: losses and metrics are a few elements of it.
template <>
void run(const AddArgs& args) {
  if (args.a.dtype == DType::fp64) {
    const double *a = args.a.as<const double>(), *b = args.b.as<const double>();
    double* out = args.out.as<double>();
    for (i64 i = 0; i < args.out.elements(); ++i) out[i] = a[i] + b[i];
    return;
  }
  map(
      args.out, [](F a, F b) { return a + b; }, args.a, args.b);
}

template <>
void run(const MultiplyArgs& args) {
  map(
      args.out, [](F a, F b) { return a * b; }, args.a, args.b);
}

template <>
void run(const ScaleArgs& args) {
  if (args.x.dtype == DType::fp64) {
    const double* x = args.x.as<const double>();
    double* out = args.out.as<double>();
    for (i64 i = 0; i < args.out.elements(); ++i) out[i] = x[i] * args.factor;
    return;
  }
  const float factor = static_cast<float>(args.factor);
  map(
      args.out, [factor](F x) { return x * factor; }, args.x);
}

template <>
void run(const GeluArgs& args) {
  with_storage(args.out.dtype, [&]<class T>(T) {
    map_as<T>(
        args.out, [](F x) { return gelu_of<T>(x); }, args.x);
  });
}

template <>
void run(const GeluBackwardArgs& args) {
  with_storage(args.out.dtype, [&]<class T>(T) {
    map_as<T>(
        args.out, [](F grad, F x) { return grad * gelu_derivative<T>(x); }, args.grad, args.x);
  });
}

template <>
void run(const GeluErfArgs& args) {
  map(
      args.out, [](F x) { return gelu_erf_of(x); }, args.x);
}

template <>
void run(const GeluErfBackwardArgs& args) {
  map(
      args.out, [](F grad, F x) { return grad * gelu_erf_derivative(x); }, args.grad, args.x);
}

template <>
void run(const TanhArgs& args) {
  map(
      args.out, [](F x) { return tanh_of(x); }, args.x);
}

template <>
void run(const TanhBackwardArgs& args) {
  map(
      args.out, [](F grad, F x) { return grad * tanh_derivative(x); }, args.grad, args.x);
}

}  // namespace tessera::cpu::TESSERA_ISA
