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
    const Matrix<const i64> counts(args.counts);
    double sum = 0;
    for (i64 row = 0; row < args.logits.shape[0]; ++row) {
      const Doubles shares = shares_of(args.score, row_of<T>(args.logits, row));
      for (std::size_t e = 0; e < shares.size(); ++e) {
        sum += static_cast<double>(counts(args.rows.of(row), static_cast<i64>(e))) * shares[e];
      }
    }
    *args.out.as<double>() = args.factor * *args.inverse_weight.as<const double>() * sum;
  });
}

template <>
void run(const BalanceGradArgs& args) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    const Matrix<const i64> counts(args.counts);
    const Matrix<T> out(args.out);
    const double scale =
        args.factor * *args.inverse_weight.as<const double>() * *args.grad.as<const double>();
    parallel_for(args.logits.shape[0], 8, [&](i64 begin, i64 end) {
      for (i64 row = begin; row < end; ++row) {
        const Doubles logits = row_of<T>(args.logits, row);
        const Doubles shares = shares_of(args.score, logits);
        Doubles wanted;
        double mean = 0, scores = kTiny;
        for (std::size_t e = 0; e < shares.size(); ++e) {
          wanted.push_back(scale *
                           static_cast<double>(counts(args.rows.of(row), static_cast<i64>(e))));
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
