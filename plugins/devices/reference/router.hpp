#pragma once
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "elements.hpp"
#include "tessera/ops/router.hpp"

// Scores of routers, for the choice of experts and for auxiliary losses.
namespace tessera::reference {

constexpr double kTiny = 1e-20;  // keeps the sum of scores from being 0
using Doubles = std::vector<double>;

inline double score_of(RouterScore score, double logit) {
  if (score == RouterScore::sigmoid) return 1 / (1 + std::exp(-logit));
  if (score == RouterScore::sqrt_softplus) {
    return std::sqrt(std::max(logit, 0.0) + std::log1p(std::exp(-std::abs(logit))));
  }
  return logit;
}

inline double derivative_of(RouterScore score, double logit) {
  const double sigmoid = 1 / (1 + std::exp(-logit));
  if (score == RouterScore::sigmoid) return sigmoid * (1 - sigmoid);
  const double root = score_of(score, logit);
  return root == 0 ? 0 : sigmoid / (2 * root);
}

inline Doubles softmax(const Doubles& logits) {
  const double largest = std::accumulate(
      logits.begin(), logits.end(), -HUGE_VAL, [](double a, double b) { return std::max(a, b); });
  Doubles shares(logits.size());
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) sum += shares[i] = std::exp(logits[i] - largest);
  for (double& share : shares) share /= sum;
  return shares;
}

template <class T>
Doubles row_of(const TensorArg& logits, i64 row) {
  const Matrix<const T> matrix(logits);
  Doubles values;
  for (i64 e = 0; e < logits.shape[1]; ++e) values.push_back(static_cast<double>(matrix(row, e)));
  return values;
}

}  // namespace tessera::reference
