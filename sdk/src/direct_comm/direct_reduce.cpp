#include "sdk/src/direct_comm/direct_reduce.hpp"

#include <cstring>

#include "tessera/device/small_floats.hpp"
#include "tessera/error.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera {

namespace {

constexpr i64 kGrainBytes = 256 << 10;
constexpr int kBlock = 64;  // elements; the fixed trip count lets -O2 vectorise

// How an element is stored and in which type it is reduced.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(T stored) { return stored; }
  static T store(Value value) { return value; }
};

template <class T>
struct Small {
  using Stored = T;
  using Value = float;
  static float load(T stored) { return static_cast<float>(stored); }
  static T store(float value) { return static_cast<T>(value); }
};

struct Sum {
  template <class V>
  static V apply(V a, V b) {
    return static_cast<V>(a + b);
  }
};
struct Max {  // a NaN stays
  template <class V>
  static V apply(V a, V b) {
    return (b > a || b != b) ? b : a;
  }
};
struct Min {
  template <class V>
  static V apply(V a, V b) {
    return (b < a || b != b) ? b : a;
  }
};

template <class E, class Op>
inline void reduce_block(const std::vector<const void*>& sources,
                         const std::vector<void*>& targets,
                         i64 begin,
                         int length) {
  using Stored = typename E::Stored;
  typename E::Value sum[kBlock];
  const auto* __restrict first = static_cast<const Stored*>(sources[0]) + begin;
  for (int i = 0; i < length; ++i) sum[i] = E::load(first[i]);
  for (std::size_t s = 1; s < sources.size(); ++s) {
    const auto* __restrict next = static_cast<const Stored*>(sources[s]) + begin;
    for (int i = 0; i < length; ++i) sum[i] = Op::apply(sum[i], E::load(next[i]));
  }
  for (void* target : targets) {
    auto* __restrict out = static_cast<Stored*>(target) + begin;
    for (int i = 0; i < length; ++i) out[i] = E::store(sum[i]);
  }
}

template <class E, class Op>
void reduce(const std::vector<const void*>& sources,
            const std::vector<void*>& targets,
            i64 elements) {
  const i64 grain = kGrainBytes / static_cast<i64>(sizeof(typename E::Stored));
  parallel_for(elements, grain, [&](i64 begin, i64 end) {
    for (; end - begin >= kBlock; begin += kBlock) {
      reduce_block<E, Op>(sources, targets, begin, kBlock);
    }
    reduce_block<E, Op>(sources, targets, begin, static_cast<int>(end - begin));
  });
}

template <class E, class... T>
void with_op(ReduceOp op, const T&... values) {
  switch (op) {
    case ReduceOp::sum:
      return reduce<E, Sum>(values...);
    case ReduceOp::max:
      return reduce<E, Max>(values...);
    case ReduceOp::min:
      return reduce<E, Min>(values...);
  }
}

}  // namespace

void reduce_elements(DType dtype,
                     ReduceOp op,
                     const std::vector<const void*>& sources,
                     const std::vector<void*>& targets,
                     i64 elements) {
  switch (dtype) {
    case DType::fp64:
      return with_op<Plain<double>>(op, sources, targets, elements);
    case DType::fp32:
      return with_op<Plain<float>>(op, sources, targets, elements);
    case DType::fp16:
      return with_op<Small<Float16>>(op, sources, targets, elements);
    case DType::bf16:
      return with_op<Small<BFloat16>>(op, sources, targets, elements);
    case DType::i64:
      return with_op<Plain<i64>>(op, sources, targets, elements);
    case DType::i32:
      return with_op<Plain<i32>>(op, sources, targets, elements);
    case DType::boolean:
      require(op != ReduceOp::sum, "booleans cannot be summed; reduce i32 or use max");
      [[fallthrough]];
    case DType::u8:
      return with_op<Plain<u8>>(op, sources, targets, elements);
  }
}

void copy_bytes(void* to, const void* from, i64 bytes) {
  if (to == from || bytes == 0) return;
  parallel_for(bytes, kGrainBytes, [&](i64 begin, i64 end) {
    std::memcpy(static_cast<std::byte*>(to) + begin,
                static_cast<const std::byte*>(from) + begin,
                static_cast<std::size_t>(end - begin));
  });
}

}  // namespace tessera
