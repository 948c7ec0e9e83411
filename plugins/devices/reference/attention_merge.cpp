#include <algorithm>
#include <cmath>
#include <limits>

#include "attention.hpp"
#include "kernels.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::reference {
namespace {

/// With l = log(e^a + e^b): out = out · e^(a - l) + part · e^(b - l).
template <class T>
void merge(const AttentionMergeArgs& args) {
  const HeadVectors<const T> part(args.part_out);
  const HeadVectors<T> out(args.out);
  const i64 queries = args.out.shape[1], heads = args.out.shape[2], features = args.out.shape[3];
  parallel_for(args.out.shape[0] * heads * queries, 16, [&](i64 begin, i64 end) {
    for (i64 n = begin; n < end; ++n) {
      Statistic<T>& lse = args.lse.as<Statistic<T>>()[n];
      const double a = lse, b = args.part_lse.as<const Statistic<T>>()[n];
      const double largest = std::max(a, b);
      if (largest == -std::numeric_limits<double>::infinity()) continue;
      const double both = largest + std::log(std::exp(a - largest) + std::exp(b - largest));
      const i64 sample = n / (heads * queries), head = n / queries % heads, i = n % queries;
      for (i64 f = 0; f < features; ++f) {
        T& value = out(sample, i, head, f);
        value = static_cast<T>(static_cast<double>(value) * std::exp(a - both) +
                               static_cast<double>(part(sample, i, head, f)) * std::exp(b - both));
      }
      lse = static_cast<Statistic<T>>(both);
    }
  });
}

}  // namespace

template <>
void run(const AttentionMergeArgs& args) {
  with_floating(args.kName, args.out.dtype, [&]<class T>(T) { merge<T>(args); });
}

}  // namespace tessera::reference
