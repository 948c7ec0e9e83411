#include "tessera/ops/embedding.hpp"
#include "elements.hpp"
#include "kernels.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::reference {

template <>
void run(const EmbeddingArgs& args) {
  with_floating(args.kName, args.table.dtype, [&]<class T>(T) {
    const Matrix<const T> table(args.table);
    const Matrix<T> out(args.out);
    const i64* ids = args.ids.as<const i64>();
    parallel_for(args.ids.shape[0], 16, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        const i64 row = ids[i] - args.first;
        const bool here = row >= 0 && row < args.table.shape[0];
        for (i64 j = 0; j < args.table.shape[1]; ++j) out(i, j) = here ? table(row, j) : T{};
      }
    });
  });
}

template <>
void run(const EmbeddingWeightArgs& args) {
  with_floating(args.kName, args.grad.dtype, [&]<class T>(T) {
    const Matrix<const T> grad(args.grad);
    const i64* ids = args.ids.as<const i64>();
    with_accumulator<T>(args.table_grad.dtype, [&]<class S>(S) {
      const Matrix<S> table_grad(args.table_grad);
      // Threads share the features: two rows may have one id, and their order matters.
      parallel_for(args.grad.shape[1], 16, [&](i64 begin, i64 end) {
        for (i64 i = 0; i < args.ids.shape[0]; ++i) {
          const i64 row = ids[i] - args.first;
          if (row < 0 || row >= args.table_grad.shape[0]) continue;
          for (i64 j = begin; j < end; ++j) {
            S& sum = table_grad(row, j);
            sum = static_cast<S>(static_cast<double>(sum) + static_cast<double>(grad(i, j)));
          }
        }
      });
    });
  });
}

}  // namespace tessera::reference
