#include "tessera/ops/router.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels.hpp"
#include "router.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::reference {
namespace {

Doubles scores_of(RouterScore score, const Doubles& logits) {
  if (score == RouterScore::softmax_before) return softmax(logits);
  Doubles scores;
  for (const double logit : logits) scores.push_back(score_of(score, logit));
  return scores;
}

/// The k largest of the values at `among`, the largest first; of equal ones the first stays first.
std::vector<i64> largest(const Doubles& values, const std::vector<i64>& among, i64 k) {
  std::vector<i64> best;
  for (const i64 e : among) {
    const double value = values[static_cast<std::size_t>(e)];
    if (static_cast<i64>(best.size()) == k) {
      if (!(value > values[static_cast<std::size_t>(best.back())])) continue;
      best.pop_back();
    }
    std::size_t at = best.size();
    while (at > 0 && value > values[static_cast<std::size_t>(best[at - 1])]) --at;
    best.insert(best.begin() + static_cast<std::ptrdiff_t>(at), e);
  }
  return best;
}

std::vector<i64> range(i64 begin, i64 end) {
  std::vector<i64> all(static_cast<std::size_t>(end - begin));
  std::iota(all.begin(), all.end(), begin);
  return all;
}

/// Experts of the groups that a token may choose from.
std::vector<i64> allowed(const RouterSpec& spec, const Doubles& scores) {
  const i64 all = static_cast<i64>(scores.size());
  if (spec.groups == 1) return range(0, all);
  const i64 length = all / spec.groups;
  Doubles sums;
  for (i64 g = 0; g < spec.groups; ++g) {
    double sum = 0;
    const i64 counted = spec.top_k / spec.group_top_k;
    for (const i64 e : largest(scores, range(g * length, (g + 1) * length), counted)) {
      sum += scores[static_cast<std::size_t>(e)];
    }
    sums.push_back(sum);
  }
  std::vector<i64> groups = largest(sums, range(0, spec.groups), spec.group_top_k);
  std::ranges::sort(groups);
  std::vector<i64> experts;
  for (const i64 g : groups) {
    for (i64 e = g * length; e < (g + 1) * length; ++e) experts.push_back(e);
  }
  return experts;
}

/// The choices of a row that are experts, as places among its k.
std::vector<std::size_t> choices_of(const TensorArg& experts, i64 row, i64 all) {
  const Matrix<const i32> matrix(experts);
  std::vector<std::size_t> choices;
  for (i64 c = 0; c < experts.shape[1]; ++c) {
    if (matrix(row, c) >= 0 && matrix(row, c) < all) choices.push_back(static_cast<std::size_t>(c));
  }
  return choices;
}

}  // namespace

template <>
void run(const TopkExpertsArgs& args) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    const Matrix<i32> experts(args.experts);
    const auto* bias = args.bias.as<const Statistic<T>>();
    parallel_for(args.logits.shape[0], 8, [&](i64 begin, i64 end) {
      for (i64 row = begin; row < end; ++row) {
        const Doubles logits = row_of<T>(args.logits, row);
        Doubles scores = scores_of(args.spec.score, logits);
        for (std::size_t e = 0; bias != nullptr && e < scores.size(); ++e) scores[e] += bias[e];
        const std::vector<i64> among = allowed(args.spec, scores);
        const std::vector<i64> best =
            largest(bias != nullptr ? scores : logits, among, args.spec.top_k);
        for (i64 c = 0; c < args.spec.top_k; ++c) {
          experts(row, c) = static_cast<i32>(best[static_cast<std::size_t>(c)]);
        }
      }
    });
  });
}

template <>
void run(const RouterWeightsArgs& args) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    const Matrix<const i32> experts(args.experts);
    const Matrix<Statistic<T>> weights(args.weights);
    const i64 k = args.experts.shape[1];
    parallel_for(args.logits.shape[0], 8, [&](i64 begin, i64 end) {
      for (i64 row = begin; row < end; ++row) {
        const auto choices = choices_of(args.experts, row, args.logits.shape[1]);
        const Doubles scores = scores_of(args.spec.score, row_of<T>(args.logits, row));
        Doubles chosen;
        for (const std::size_t c : choices) {
          chosen.push_back(scores[static_cast<std::size_t>(experts(row, static_cast<i64>(c)))]);
        }
        double factor = args.spec.scale;
        if (args.spec.score == RouterScore::softmax) {
          chosen = softmax(chosen);
        } else if (args.spec.score != RouterScore::softmax_before && k > 1) {
          factor /= std::accumulate(chosen.begin(), chosen.end(), 0.0) + kTiny;
        }
        for (i64 c = 0; c < k; ++c) weights(row, c) = 0;
        for (std::size_t i = 0; i < choices.size(); ++i) {
          weights(row, static_cast<i64>(choices[i])) =
              static_cast<Statistic<T>>(chosen[i] * factor);
        }
      }
    });
  });
}

template <>
void run(const RouterWeightsBackwardArgs& args) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    const Matrix<const i32> experts(args.experts);
    const Matrix<const Statistic<T>> grad(args.grad);
    const Matrix<T> out(args.out);
    const RouterScore score = args.spec.score;
    const i64 all = args.logits.shape[1], k = args.experts.shape[1];
    parallel_for(args.logits.shape[0], 8, [&](i64 begin, i64 end) {
      for (i64 row = begin; row < end; ++row) {
        const Doubles logits = row_of<T>(args.logits, row);
        Doubles gradient(logits.size()), chosen, wanted;  // wanted: of the weights, scaled
        std::vector<std::size_t> at;
        for (const std::size_t c : choices_of(args.experts, row, all)) {
          at.push_back(static_cast<std::size_t>(experts(row, static_cast<i64>(c))));
          chosen.push_back(logits[at.back()]);
          wanted.push_back(args.spec.scale * static_cast<double>(grad(row, static_cast<i64>(c))));
        }
        const bool before = score == RouterScore::softmax_before;
        if (before || score == RouterScore::softmax) {
          const Doubles shares = softmax(before ? logits : chosen);
          double mean = 0;
          for (std::size_t i = 0; i < at.size(); ++i)
            mean += shares[before ? at[i] : i] * wanted[i];
          for (std::size_t e = 0; before && e < shares.size(); ++e) gradient[e] = -shares[e] * mean;
          for (std::size_t i = 0; i < at.size(); ++i) {
            const double share = shares[before ? at[i] : i];
            gradient[at[i]] += before ? share * wanted[i] : share * (wanted[i] - mean);
          }
        } else {
          double sum = 1, mean = 0;
          if (k > 1) {
            sum = kTiny;
            for (const double logit : chosen) sum += score_of(score, logit);
            for (std::size_t i = 0; i < at.size(); ++i) {
              mean += wanted[i] * score_of(score, chosen[i]) / sum;
            }
          }
          for (std::size_t i = 0; i < at.size(); ++i) {
            gradient[at[i]] += derivative_of(score, chosen[i]) * (wanted[i] - mean) / sum;
          }
        }
        for (i64 e = 0; e < all; ++e) {
          out(row, e) = static_cast<T>(gradient[static_cast<std::size_t>(e)]);
        }
      }
    });
  });
}

}  // namespace tessera::reference
