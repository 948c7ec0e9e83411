#include "simd/kernels_of_isa.hpp"
#include "simd/router.hpp"
#include "simd/rows.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

/// A row's shares, and, where they are scores over their sum, its logits and that sum.
struct Shares {
  float logits[kRoom], values[kRoom];
  float divisor = 0;
  template <class T>
  void read(RouterScore score, const T* from, i64 all) {
    read_row(from, all, logits);
    for (i64 e = 0; e < all; e += kLanes) store(values + e, load(logits + e));
    if (by_softmax(score)) {
      divisor = exponentials(values, all).sum;
    } else {
      divisor = kTiny;
      for (i64 e = 0; e < all; ++e) {
        values[e] = own_score(score, logits[e]);
        divisor += values[e];
      }
    }
    for (i64 e = 0; e < all; ++e) values[e] /= divisor;
  }
};

/// What counts of a sequence are multiplied by: 1, or 1 over their sum.
[[gnu::always_inline]] inline double scale_of(const i64* counts, i64 all, bool fractions) {
  if (!fractions) return 1;
  i64 sum = 0;
  for (i64 e = 0; e < all; ++e) sum += counts[e];
  return sum > 0 ? 1 / static_cast<double>(sum) : 1;
}

// Runs on one thread, for one order.
template <class T>
void balance(const BalanceLossArgs& args) {
  const auto logits = rows_of<const T>(args.logits);
  const auto counts = rows_of<const i64>(args.counts);
  double total = 0;
  Shares shares;
  for (i64 row = 0; row < logits.n; ++row) {
    shares.read(args.score, logits[row], logits.width);
    const i64* of_sequence = counts[args.rows.of(row)];
    const double each = scale_of(of_sequence, logits.width, args.fractions);
    for (i64 e = 0; e < logits.width; ++e) {
      total += each * static_cast<double>(of_sequence[e]) * static_cast<double>(shares.values[e]);
    }
  }
  *args.out.as<double>() = args.factor * *args.inverse_weight.as<const double>() * total;
}

template <class T>
void balance_gradient(const BalanceGradArgs& args) {
  const auto logits = rows_of<const T>(args.logits);
  const auto counts = rows_of<const i64>(args.counts);
  const auto out = rows_of<T>(args.out);
  const SequenceRows rows = args.rows;
  const RouterScore score = args.score;
  const bool fractions = args.fractions;
  const double scale =
      args.factor * *args.inverse_weight.as<const double>() * *args.grad.as<const double>();
  parallel_for(logits.n, row_grain(4 * logits.width), [=](i64 begin, i64 end) {
    const i64 all = logits.width;
    Shares shares;
    float gradient[kRoom];
    for (i64 row = begin; row < end; ++row) {
      shares.read(score, logits[row], all);
      const i64* of_sequence = counts[rows.of(row)];
      const double each = scale * scale_of(of_sequence, all, fractions);
      float mean = 0;
      for (i64 e = 0; e < all; ++e) {
        gradient[e] = static_cast<float>(each * static_cast<double>(of_sequence[e]));
        mean += shares.values[e] * gradient[e];
      }
      for (i64 e = 0; e < all; ++e) {
        const float rise = by_softmax(score) ? shares.values[e]
                                             : rise_of(score, shares.logits[e]) / shares.divisor;
        gradient[e] = rise * (gradient[e] - mean);
      }
      for_vectors(
          all, [=](i64 e, auto count) { store(out[row] + e, load(gradient + e, count), count); });
    }
  });
}

/// The logarithm for a row whose powers of e are there.
[[gnu::always_inline]] inline float log_sum_exp(const Softmax& found) {
  return found.largest + __builtin_logf(found.sum);
}

// Runs on one thread, for one order.
template <class T>
void square_logs(const ZLossArgs& args) {
  const auto logits = rows_of<const T>(args.logits);
  double total = 0;
  float powers[kRoom];
  for (i64 row = 0; row < logits.n; ++row) {
    read_row(logits[row], logits.width, powers);
    const double z = static_cast<double>(log_sum_exp(exponentials(powers, logits.width)));
    total += z * z;
  }
  *args.out.as<double>() = args.factor * *args.inverse_weight.as<const double>() * total;
}

template <class T>
void square_logs_gradient(const ZLossGradArgs& args) {
  const auto logits = rows_of<const T>(args.logits);
  const auto out = rows_of<T>(args.out);
  const float scale = static_cast<float>(2 * args.factor * *args.inverse_weight.as<const double>() *
                                         *args.grad.as<const double>());
  parallel_for(logits.n, row_grain(2 * logits.width), [=](i64 begin, i64 end) {
    float powers[kRoom];
    for (i64 row = begin; row < end; ++row) {
      read_row(logits[row], logits.width, powers);
      const Softmax found = exponentials(powers, logits.width);
      const float factor = scale * log_sum_exp(found) / found.sum;
      for_vectors(logits.width, [=, &powers](i64 e, auto count) {
        store(out[row] + e, factor * load(powers + e, count), count);
      });
    }
  });
}

}  // namespace

template <>
void run(const BalanceLossArgs& args) {
  with_storage(args.logits.dtype, [&]<class T>(T) { balance<T>(args); });
}

template <>
void run(const BalanceGradArgs& args) {
  with_storage(args.logits.dtype, [&]<class T>(T) { balance_gradient<T>(args); });
}

template <>
void run(const ZLossArgs& args) {
  with_storage(args.logits.dtype, [&]<class T>(T) { square_logs<T>(args); });
}

template <>
void run(const ZLossGradArgs& args) {
  with_storage(args.logits.dtype, [&]<class T>(T) { square_logs_gradient<T>(args); });
}

}  // namespace tessera::cpu::TESSERA_ISA
