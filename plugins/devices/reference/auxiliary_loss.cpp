#include "kernels.hpp"
#include "router.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::reference {
namespace {

bool by_softmax(RouterScore score) {
  return score == RouterScore::softmax || score == RouterScore::softmax_before;
}

/// What scores are divided by; the shares are scores over it.
double divisor_of(const Doubles& scores) {
  return std::accumulate(scores.begin(), scores.end(), 0.0) + kTiny;
}

Doubles shares_of(RouterScore score, const Doubles& logits) {
  if (by_softmax(score)) return softmax(logits);
  Doubles shares;
  for (const double logit : logits) shares.push_back(score_of(score, logit));
  const double divisor = divisor_of(shares);
  for (double& share : shares) share /= divisor;
  return shares;
}

/// What a row's sequence counts of each expert, or, with `fractions`, that over their sum.
template <class Args>
Doubles counts_of(const Args& args, i64 row) {
  const Matrix<const i64> counts(args.counts);
  Doubles of_row;
  double sum = 0;
  for (i64 e = 0; e < args.logits.shape[1]; ++e) {
    of_row.push_back(static_cast<double>(counts(args.rows.of(row), e)));
    sum += of_row.back();
  }
  if (args.fractions && sum > 0) {
    for (double& count : of_row) count /= sum;
  }
  return of_row;
}

double log_sum_exp(const Doubles& logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

}  // namespace

template <>
void run(const BalanceLossArgs& args) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    double sum = 0;
    for (i64 row = 0; row < args.logits.shape[0]; ++row) {
      const Doubles shares = shares_of(args.score, row_of<T>(args.logits, row));
      const Doubles counts = counts_of(args, row);
      for (std::size_t e = 0; e < shares.size(); ++e) sum += counts[e] * shares[e];
    }
    *args.out.as<double>() = args.factor * *args.inverse_weight.as<const double>() * sum;
  });
}

template <>
void run(const BalanceGradArgs& args) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    const Matrix<T> out(args.out);
    const double scale =
        args.factor * *args.inverse_weight.as<const double>() * *args.grad.as<const double>();
    parallel_for(args.logits.shape[0], 8, [&](i64 begin, i64 end) {
      for (i64 row = begin; row < end; ++row) {
        const Doubles logits = row_of<T>(args.logits, row);
        const Doubles shares = shares_of(args.score, logits);
        const Doubles counts = counts_of(args, row);
        Doubles wanted;
        double mean = 0, scores = kTiny;
        for (std::size_t e = 0; e < shares.size(); ++e) {
          wanted.push_back(scale * counts[e]);
          mean += shares[e] * wanted[e];
          scores += score_of(args.score, logits[e]);
        }
        for (std::size_t e = 0; e < shares.size(); ++e) {
          const double rise =
              by_softmax(args.score) ? shares[e] : derivative_of(args.score, logits[e]) / scores;
          out(row, static_cast<i64>(e)) = static_cast<T>(rise * (wanted[e] - mean));
        }
      }
    });
  });
}

template <>
void run(const ZLossArgs& args) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    double sum = 0;
    for (i64 row = 0; row < args.logits.shape[0]; ++row) {
      const double z = log_sum_exp(row_of<T>(args.logits, row));
      sum += z * z;
    }
    *args.out.as<double>() = args.factor * *args.inverse_weight.as<const double>() * sum;
  });
}

template <>
void run(const ZLossGradArgs& args) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    const Matrix<T> out(args.out);
    const double scale =
        2 * args.factor * *args.inverse_weight.as<const double>() * *args.grad.as<const double>();
    parallel_for(args.logits.shape[0], 8, [&](i64 begin, i64 end) {
      for (i64 row = begin; row < end; ++row) {
        const Doubles logits = row_of<T>(args.logits, row);
        const double z = log_sum_exp(logits);
        const Doubles shares = softmax(logits);
        for (std::size_t e = 0; e < shares.size(); ++e) {
          out(row, static_cast<i64>(e)) = static_cast<T>(scale * z * shares[e]);
        }
      }
    });
  });
}

}  // namespace tessera::reference
