#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sdk/src/host_device/host_kernels.hpp"
#include "tessera/device/core_ops.hpp"
#include "tessera/parallel_for.hpp"
#include "tessera/random.hpp"
#include "tessera/with_type.hpp"

namespace tessera {
namespace {

/// Shares [n, E] of rows of logits: their softmax, in double.
template <class T>
void softmax_rows(const TensorArg& logits, double* shares) {
  const i64 rows = logits.shape[0], all = logits.shape[1];
  const T* from = logits.as<const T>();
  parallel_for(rows, 8, [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      double* of_row = shares + row * all;
      double largest = -HUGE_VAL, sum = 0;
      for (i64 e = 0; e < all; ++e) {
        of_row[e] = static_cast<double>(from[row * all + e]);
        largest = std::max(largest, of_row[e]);
      }
      for (i64 e = 0; e < all; ++e) sum += of_row[e] = std::exp(of_row[e] - largest);
      // NaN would have no place in an order.
      for (i64 e = 0; e < all; ++e) of_row[e] = std::isnan(sum) ? -1 : of_row[e] / sum;
    }
  });
}

/// The rows of one sequence, from its first position on.
void rows_of_sequence(const ExpertChoiceArgs& args, i64 sequence, i64* rows) {
  const i64 length = args.length / args.parts, part = args.logits.shape[0] / args.parts;
  const i64* positions = args.positions.as<const i64>();
  for (i64 p = 0; p < args.parts; ++p) {
    for (i64 i = 0; i < length; ++i) rows[p * length + i] = p * part + sequence * length + i;
  }
  std::sort(rows, rows + args.length, [&](i64 a, i64 b) { return positions[a] < positions[b]; });
}

/// Shares; the rows of a sequence; and, for each expert, the order in which it would take them.
LaunchRequirements prepare_choice(const ExpertChoiceArgs& args) {
  const i64 numbers = args.logits.elements() + args.length * (1 + args.logits.shape[1]);
  return {.workspace_bytes = numbers * static_cast<i64>(sizeof(double))};
}

void choose(const ExpertChoiceArgs& args, void* workspace, Stream&) {
  const i64 all = args.logits.shape[1], length = args.length;
  const i64 seen = args.seen > 0 ? args.seen : length;
  const i64 taken = (seen * args.rows + length - 1) / length;
  auto* shares = static_cast<double*>(workspace);
  auto* rows = reinterpret_cast<i64*>(shares + args.logits.elements());
  i64* orders = rows + length;
  i32* experts = args.experts.as<i32>();
  std::fill_n(experts, args.n * all, -1);
  with_floating(
      args.kName, args.logits.dtype, [&]<class T>(T) { softmax_rows<T>(args.logits, shares); });
  for (i64 s = 0; s < args.logits.shape[0] / length; ++s) {
    rows_of_sequence(args, s, rows);
    parallel_for(all, 1, [&](i64 begin, i64 end) {
      for (i64 e = begin; e < end; ++e) {
        i64* order = orders + e * length;
        std::iota(order, order + seen, i64{0});
        std::sort(order, order + seen, [&](i64 a, i64 b) {
          const double of_a = shares[rows[a] * all + e], of_b = shares[rows[b] * all + e];
          return of_a != of_b ? of_a > of_b : a < b;
        });
        for (i64 i = 0; i < taken; ++i) {
          const i64 own = rows[order[i]] - args.first;
          if (own >= 0 && own < args.n) experts[own * all + e] = static_cast<i32>(e);
        }
      }
    });
  }
}

void move_bias(const ExpertBiasArgs& args) {
  const i64 all = args.bias.shape[0];
  i64* counts = args.counts.as<i64>();
  i64 sum = 0;
  for (i64 e = 0; e < all; ++e) sum += counts[e];
  const bool skipped = *args.skipped.as<const double>() != 0;
  with_floating(args.kName, args.bias.dtype, [&]<class T>(T) {
    T* bias = args.bias.as<T>();
    for (i64 e = 0; e < all; ++e) {
      const i64 above = all * counts[e];  // the mean, exactly: sum / all
      const double rise = above < sum ? args.rate : above > sum ? -args.rate : 0;
      if (!skipped) bias[e] = T(static_cast<double>(bias[e]) + rise);
      counts[e] = 0;
    }
  });
}

void jitter(const JitterArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const i64 width = args.x.shape[1];
    const T* x = args.x.as<const T>();
    T* out = args.out.as<T>();
    const i64* rows = args.row_ids.as<const i64>();
    parallel_for(args.x.shape[0], 8, [&](i64 begin, i64 end) {
      for (i64 row = begin; row < end; ++row) {
        Philox::Words words{};
        for (i64 j = 0; j < width; ++j) {
          if (j % 4 == 0) words = Philox::words(args.key, hidden_counter(rows[row], j));
          const double u =
              static_cast<double>(words[static_cast<std::size_t>(j % 4)]) / 4294967296.0;
          const double factor = 1 - args.eps + 2 * args.eps * u;
          out[row * width + j] = T(factor * static_cast<double>(x[row * width + j]));
        }
      }
    });
  });
}

}  // namespace

std::vector<Kernel> host_kernels_router() {
  return {make_kernel<ExpertChoiceArgs>(&prepare_choice, &choose),
          make_kernel<ExpertBiasArgs>(&move_bias),
          make_kernel<JitterArgs>(&jitter)};
}

}  // namespace tessera
