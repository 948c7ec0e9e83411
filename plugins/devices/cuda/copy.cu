// fill and copy: any dtypes, any strides.
#include "kernels.hpp"
#include "packs.hpp"
#include "tessera/ops/elementwise.hpp"
#include "walk.hpp"

namespace tessera::cuda {

namespace {

constexpr int kThreads = 256;

__device__ i64 number_of_thread() { return static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x; }

LaunchShape shape_of(i64 units) {
  return {.blocks = blocks_for(units, kThreads), .threads = kThreads};
}

/// Calls f with a value of the C++ type of a dtype.
template <class F>
void with_any(std::string_view operation, DType dtype, F&& f) {
  switch (dtype) {
    case DType::i64:
      return f(i64{});
    case DType::i32:
      return f(i32{});
    case DType::u8:
      return f(u8{});
    case DType::boolean:
      return f(bool{});
    default:
      return with_floating(operation, dtype, f);
  }
}

template <class T, int N>
__global__ void fill(Walk walk, T* out, double value) {
  const i64 i = number_of_thread();
  if (i >= walk.elements) return;
  i64 in_x, at;
  walk.find(i, in_x, at);
  Pack<T, N> pack;
  for (int n = 0; n < N; ++n) pack.of[n] = narrow<T>(value);
  reinterpret_cast<Pack<T, N>*>(out)[at] = pack;
}

/// Unit: some neighbouring elements as one.
template <class Unit>
__global__ void move(Walk walk, const Unit* x, Unit* out) {
  const i64 i = number_of_thread();
  if (i >= walk.elements) return;
  i64 from, to;
  walk.find(i, from, to);
  out[to] = x[from];
}

template <class Unit>
bool move_bits_by(const CopyArgs& args, const Walk& walk, cudaStream_t stream) {
  const i64 n = static_cast<i64>(sizeof(Unit)) / dtype_size(args.x.dtype);
  const auto* x = args.x.as<const Unit>();
  auto* out = args.out.as<Unit>();
  const auto at_unit = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % sizeof(Unit) == 0;
  };
  if (n > 1 && (!walk.divides(n) || !at_unit(x) || !at_unit(out))) return false;
  const Walk units = n > 1 ? walk.divided(n) : walk;
  launch(move<Unit>, shape_of(units.elements), stream, units, x, out);
  return true;
}

/// Bits as they are, in the largest units that fit.
void move_bits(const CopyArgs& args, const Walk& walk, cudaStream_t stream) {
  if (move_bits_by<Sixteen>(args, walk, stream)) return;
  switch (dtype_size(args.x.dtype)) {
    case 8:
      move_bits_by<u64>(args, walk, stream);
      break;
    case 4:
      move_bits_by<u32>(args, walk, stream);
      break;
    case 2:
      move_bits_by<std::uint16_t>(args, walk, stream);
      break;
    default:
      move_bits_by<u8>(args, walk, stream);
  }
}

/// Elements of dense tensors that a thread converts at once.
constexpr int kConverted = 4;

template <class From, class To>
__global__ void convert_dense(const From* x, To* out, i64 elements, bool whole) {
  const i64 i = number_of_thread() * kConverted;
  if (i >= elements) return;
  using Value = std::conditional_t<std::is_same_v<From, double>, double, float>;
  Value values[kConverted];
  load(values, x + i, elements - i, whole);
  store(out + i, values, elements - i, whole);
}

template <class From, class To>
void convert_floats(const CopyArgs& args, cudaStream_t stream) {
  const From* x = args.x.as<const From>();
  To* out = args.out.as<To>();
  const i64 elements = args.out.elements();
  launch(convert_dense<From, To>,
         shape_of(blocks_for(elements, kConverted)),
         stream,
         x,
         out,
         elements,
         aligned<From, kConverted>(x) && aligned<To, kConverted>(out));
}

/// What a double or an i64 holds exactly; integers go from one to the other without a double.
struct Number {
  double real;
  i64 integer;
};

__device__ Number number_at(const void* x, DType dtype, i64 at) {
  const auto of_integer = [](i64 value) { return Number{static_cast<double>(value), value}; };
  const auto of_real = [](double value) { return Number{value, 0}; };
  switch (dtype) {
    case DType::fp64:
      return of_real(static_cast<const double*>(x)[at]);
    case DType::fp32:
      return of_real(static_cast<const float*>(x)[at]);
    case DType::fp16:
      return of_real(widen(static_cast<const Half*>(x)[at]));
    case DType::bf16:
      return of_real(widen(static_cast<const BFloat*>(x)[at]));
    case DType::i64:
      return of_integer(static_cast<const i64*>(x)[at]);
    case DType::i32:
      return of_integer(static_cast<const i32*>(x)[at]);
    default:
      return of_integer(static_cast<const u8*>(x)[at]);
  }
}

__device__ void put_number(Number number, bool integer, void* out, DType dtype, i64 at) {
  const double real = number.real;
  switch (dtype) {
    case DType::fp64:
      static_cast<double*>(out)[at] = real;
      break;
    case DType::fp32:
      static_cast<float*>(out)[at] = static_cast<float>(real);
      break;
    case DType::fp16:
      static_cast<Half*>(out)[at] = narrow<Half>(real);
      break;
    case DType::bf16:
      static_cast<BFloat*>(out)[at] = narrow<BFloat>(real);
      break;
    case DType::boolean:
      static_cast<u8*>(out)[at] = (integer ? number.integer != 0 : real != 0) ? 1 : 0;
      break;
    default: {
      const i64 whole = integer ? number.integer : static_cast<i64>(real);
      if (dtype == DType::i64) static_cast<i64*>(out)[at] = whole;
      if (dtype == DType::i32) static_cast<i32*>(out)[at] = static_cast<i32>(whole);
      if (dtype == DType::u8) static_cast<u8*>(out)[at] = static_cast<u8>(whole);
    }
  }
}

/// Any dtype to any other: one kernel, because none of these is in the way of a step.
__global__ void convert(Walk walk, const void* x, DType from, bool integer, void* out, DType to) {
  const i64 i = number_of_thread();
  if (i >= walk.elements) return;
  i64 in_x, in_out;
  walk.find(i, in_x, in_out);
  put_number(number_at(x, from, in_x), integer, out, to, in_out);
}

}  // namespace

template <>
void run(const FillArgs& args, void*, cudaStream_t stream) {
  if (args.out.elements() == 0) return;
  const Walk walk(args.out, args.out);
  with_any(args.kName, args.out.dtype, [&]<class T>(T) {
    T* out = args.out.as<T>();
    if (walk.divides(kPack<T>) && aligned(out)) {
      const Walk packs = walk.divided(kPack<T>);
      launch(fill<T, kPack<T>>, shape_of(packs.elements), stream, packs, out, args.value);
    } else {
      launch(fill<T, 1>, shape_of(walk.elements), stream, walk, out, args.value);
    }
  });
}

template <>
void run(const CopyArgs& args, void*, cudaStream_t stream) {
  if (args.out.elements() == 0) return;
  const Walk walk(args.x, args.out);
  const DType from = args.x.dtype, to = args.out.dtype;
  if (from == to) return move_bits(args, walk, stream);
  if (walk.dense() && is_floating(from) && is_floating(to)) {
    return with_floating(args.kName, from, [&]<class From>(From) {
      with_floating(args.kName, to, [&]<class To>(To) {
        if constexpr (!std::is_same_v<From, To>) convert_floats<From, To>(args, stream);
      });
    });
  }
  launch(convert,
         shape_of(walk.elements),
         stream,
         walk,
         args.x.as<const void>(),
         from,
         !is_floating(from),
         args.out.as<void>(),
         to);
}

}  // namespace tessera::cuda
