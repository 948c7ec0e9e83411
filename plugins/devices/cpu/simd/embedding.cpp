#include "simd/kernels_of_isa.hpp"
#include "simd/rows.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu::TESSERA_ISA {

template <>
void run(const EmbeddingArgs& args) {
  with_storage(args.table.dtype, [&]<class T>(T) {
    const auto table = rows_of<const T>(args.table);
    const auto out = rows_of<T>(args.out);
    const i64* ids = args.ids.as<const i64>();
    const i64 first = args.first;
    parallel_for(out.n, row_grain(out.width), [=](i64 begin, i64 end) {
      for (i64 row = begin; row < end; ++row) {
        const i64 entry = ids[row] - first;
        const std::size_t bytes = static_cast<std::size_t>(out.width) * sizeof(T);
        if (entry >= 0 && entry < table.n) {
          __builtin_memcpy(out[row], table[entry], bytes);
        } else {
          __builtin_memset(out[row], 0, bytes);
        }
      }
    });
  });
}

// Each thread takes a stripe of columns and all rows in order: the bits do not depend on how many.
template <>
void run(const EmbeddingWeightArgs& args) {
  const auto add_rows = [&]<class T, class Sum>(T, Sum) {
    const auto grad = rows_of<const T>(args.grad);
    const auto table = rows_of<Sum>(args.table_grad);
    const i64* ids = args.ids.as<const i64>();
    const i64 first = args.first;
    const i64 lines = (grad.width + kLanes - 1) / kLanes;
    parallel_for(lines, 1 + 16384 / (grad.n * kLanes + 1), [=](i64 begin, i64 end) {
      const i64 left = begin * kLanes;
      const i64 right = end * kLanes < grad.width ? end * kLanes : grad.width;
      for (i64 row = 0; row < grad.n; ++row) {
        const i64 entry = ids[row] - first;
        if (entry < 0 || entry >= table.n) continue;
        const T* from = grad[row] + left;
        Sum* to = table[entry] + left;
        for_vectors(right - left, [=](i64 j, auto count) {
          store(to + j, load(to + j, count) + load(from + j, count), count);
        });
      }
    });
  };
  with_storage(args.grad.dtype, [&]<class T>(T element) {
    if (args.table_grad.dtype == DType::fp32) {
      add_rows(element, float{});
    } else {
      add_rows(element, element);
    }
  });
}

}  // namespace tessera::cpu::TESSERA_ISA
