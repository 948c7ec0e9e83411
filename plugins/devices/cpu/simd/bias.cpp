#include "simd/columns.hpp"
#include "simd/kernels_of_isa.hpp"
#include "simd/rows.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu::TESSERA_ISA {

template <>
void run(const AddBiasArgs& args) {
  with_storage(args.x.dtype, [&]<class T>(T) {
    const auto x = rows_of<const T>(args.x);
    const auto out = rows_of<T>(args.out);
    const T* bias = args.bias.as<const T>();
    parallel_for(x.n, row_grain(x.width), [=](i64 begin, i64 end) {
      for (i64 row = begin; row < end; ++row) {
        const T* from = x[row];
        T* to = out[row];
        for_vectors(x.width, [=](i64 j, auto count) {
          store(to + j, load(from + j, count) + load(bias + j, count), count);
        });
      }
    });
  });
}

template <>
void run(const ColumnSumArgs& args) {
  with_storage(args.x.dtype, [&]<class T>(T) {
    const auto x = rows_of<const T>(args.x);
    sum_columns<1>(x.n, x.width, {&args.out}, [=](i64 row, i64 column, auto count) {
      return Terms<1>{{load(x[row] + column, count)}};
    });
  });
}

}  // namespace tessera::cpu::TESSERA_ISA
