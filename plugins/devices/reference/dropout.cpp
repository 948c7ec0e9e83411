#include "elements.hpp"
#include "kernels.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/parallel_for.hpp"
#include "tessera/random.hpp"

namespace tessera::reference {

template <>
void run(const DropoutArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const Matrix<const T> x(args.x), residual(args.residual);
    const Matrix<T> out(args.out);
    const i64* rows = args.row_ids.as<const i64>();
    const u64 threshold = keep_threshold(args.p);
    parallel_for(args.x.shape[0], 8, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        for (i64 j = 0; j < args.x.shape[1]; ++j) {
          double value = static_cast<double>(x(i, j));
          if (args.p > 0) {
            const i64 feature = args.feature_offset + j;
            const auto words = Philox::words(args.key, hidden_counter(rows[i], feature));
            const bool keep = words[static_cast<std::size_t>(feature % 4)] < threshold;
            value = keep ? value / (1 - args.p) : 0;
          }
          if (args.residual) value += static_cast<double>(residual(i, j));
          out(i, j) = static_cast<T>(value);
        }
      }
    });
  });
}

}  // namespace tessera::reference
