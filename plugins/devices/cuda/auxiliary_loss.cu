// Losses that keep experts balanced, and the bias that does without: balance_loss, z_loss, their
// gradients, expert_bias. In double: there are few logits.
#include "kernels.hpp"
#include "router.hpp"

namespace tessera::cuda {
namespace {

/// The rows of logits that a balance loss is of.
template <class T>
struct Balance {
  const T* logits;
  i64 rows, all;
  const i64* counts = nullptr;
  SequenceRows of = {};
  RouterScore score = RouterScore::softmax;
  bool fractions = false;

  __device__ double logit(i64 row, i64 e) const {
    return static_cast<double>(widen(logits[row * all + e]));
  }
  __device__ Softmax<double> softmax(i64 row) const {
    return softmax_of<double>(all, [&](i64 e, bool&) { return logit(row, e); });
  }
  __device__ const i64* counts_of(i64 row) const {
    return counts + (of.positions == 0 ? 0 : (of.first + row) / of.positions) * all;
  }
  /// What the counts of a row's sequence are divided by.
  __device__ double count_divisor(i64 row) const {
    if (!fractions) return 1;
    double sum = 0;
    for_lane(all, [&](i64 e) { sum += static_cast<double>(counts_of(row)[e]); });
    sum = warp_sum(sum);
    return sum > 0 ? sum : 1;
  }
  /// What scores are divided by: shares are scores over it.
  __device__ double score_divisor(i64 row) const {
    double sum = 0;
    for_lane(all, [&](i64 e) { sum += score_of(score, logit(row, e)); });
    return warp_sum(sum) + kTinyScore;
  }
  /// The shares of a row, by functions of an expert: f(share).
  template <class F>
  __device__ void with_shares(i64 row, F f) const {
    if (by_softmax(score)) {
      const Softmax<double> of_row = softmax(row);
      f([&](i64 e) { return of_row(logit(row, e)); }, 1.0);
    } else {
      const double divisor = score_divisor(row);
      f([&](i64 e) { return score_of(score, logit(row, e)) / divisor; }, divisor);
    }
  }
};

/// losses [rows]
template <class T>
__global__ void balance_rows(Balance<T> of, double* losses) {
  for_rows_of_warp(of.rows, [&](i64 row) {
    const double divisor = of.count_divisor(row);
    const i64* counts = of.counts_of(row);
    of.with_shares(row, [&](auto share, double) {
      double sum = 0;
      for_lane(of.all, [&](i64 e) { sum += static_cast<double>(counts[e]) / divisor * share(e); });
      sum = warp_sum(sum);
      if (lane_of_thread() == 0) losses[row] = sum;
    });
  });
}

template <class T>
__global__ void balance_grad(
    Balance<T> of, double factor, const double* inverse_weight, const double* grad, T* out) {
  const double scale = factor * *inverse_weight * *grad;
  for_rows_of_warp(of.rows, [&](i64 row) {
    const double divisor = of.count_divisor(row);
    const i64* counts = of.counts_of(row);
    const auto wanted = [&](i64 e) { return scale * (static_cast<double>(counts[e]) / divisor); };
    of.with_shares(row, [&](auto share, double scores) {
      double mean = 0;
      for_lane(of.all, [&](i64 e) { mean += share(e) * wanted(e); });
      mean = warp_sum(mean);
      for_lane(of.all, [&](i64 e) {
        const double rise =
            by_softmax(of.score) ? share(e) : derivative_of(of.score, of.logit(row, e)) / scores;
        out[row * of.all + e] = narrow<T>(rise * (wanted(e) - mean));
      });
    });
  });
}

/// The log of the sum of the exponentials.
__device__ double log_sum(const Softmax<double>& of) { return of.largest + std::log(of.sum); }

template <class T>
__global__ void z_rows(Balance<T> of, double* losses) {
  for_rows_of_warp(of.rows, [&](i64 row) {
    const double z = log_sum(of.softmax(row));
    if (lane_of_thread() == 0) losses[row] = z * z;
  });
}

template <class T>
__global__ void z_loss_grad(
    Balance<T> of, double factor, const double* inverse_weight, const double* grad, T* out) {
  const double scale = 2 * factor * *inverse_weight * *grad;
  for_rows_of_warp(of.rows, [&](i64 row) {
    const Softmax<double> softmax = of.softmax(row);
    const double slope = scale * log_sum(softmax);
    for_lane(of.all,
             [&](i64 e) { out[row * of.all + e] = narrow<T>(slope * softmax(of.logit(row, e))); });
  });
}

/// One block.
__global__ void sum_losses(
    const double* losses, i64 rows, double factor, const double* inverse_weight, double* out) {
  double sum = 0;
  for (i64 row = threadIdx.x; row < rows; row += blockDim.x) sum += losses[row];
  sum = block_sum(sum, &shared<double>());
  if (threadIdx.x == 0) *out = factor * *inverse_weight * sum;
}

constexpr int kSumThreads = 1024;

template <class Args>
void add_losses(const Args& args, const void* losses, cudaStream_t stream) {
  launch(sum_losses,
         {.threads = kSumThreads,
          .shared_bytes = kSumThreads / kWarp * static_cast<i64>(sizeof(double))},
         stream,
         static_cast<const double*>(losses),
         args.logits.shape[0],
         args.factor,
         args.inverse_weight.template as<double>(),
         args.out.template as<double>());
}

template <class T, class Args>
Balance<T> balance_of(const Args& args) {
  Balance<T> of{.logits = args.logits.template as<T>(),
                .rows = args.logits.shape[0],
                .all = args.logits.shape[1]};
  if constexpr (requires { args.counts; }) {
    of.counts = args.counts.template as<i64>();
    of.of = args.rows;
    of.score = args.score;
    of.fractions = args.fractions;
  }
  return of;
}

/// The loss of each row by `rows_of`, which gives the kernel for a type, and then their sum.
template <class Args, class RowsOf>
void run_loss(const Args& args, void* workspace, cudaStream_t stream, RowsOf rows_of) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T value) {
    launch(rows_of(value),
           router_shape(args.logits.shape[0]),
           stream,
           balance_of<T>(args),
           static_cast<double*>(workspace));
  });
  add_losses(args, workspace, stream);
}

/// The gradient of such a loss; `gradient_of` gives the kernel for a type.
template <class Args, class GradientOf>
void run_gradient(const Args& args, cudaStream_t stream, GradientOf gradient_of) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T value) {
    launch(gradient_of(value),
           router_shape(args.logits.shape[0]),
           stream,
           balance_of<T>(args),
           args.factor,
           args.inverse_weight.template as<double>(),
           args.grad.template as<double>(),
           args.out.template as<T>());
  });
}

i64 bytes_of_rows(const TensorArg& logits) {
  return logits.shape[0] * static_cast<i64>(sizeof(double));
}

/// One block.
template <class T>
__global__ void expert_bias(const double* skipped, T* bias, i64* counts, i64 all, double rate) {
  i64 sum = 0;
  for (i64 e = threadIdx.x; e < all; e += blockDim.x) sum += counts[e];
  sum = block_sum(sum, &shared<i64>());
  for (i64 e = threadIdx.x; e < all; e += blockDim.x) {
    const i64 above = all * counts[e];  // the mean, exactly: sum / all
    const double rise = above < sum ? rate : above > sum ? -rate : 0;
    if (*skipped == 0) bias[e] = narrow<T>(static_cast<double>(widen(bias[e])) + rise);
    counts[e] = 0;
  }
}

}  // namespace

template <>
i64 Workspace<BalanceLossArgs>::bytes(const BalanceLossArgs& args) {
  return bytes_of_rows(args.logits);
}

template <>
void run(const BalanceLossArgs& args, void* workspace, cudaStream_t stream) {
  run_loss(args, workspace, stream, []<class T>(T) { return &balance_rows<T>; });
}

template <>
void run(const BalanceGradArgs& args, void*, cudaStream_t stream) {
  run_gradient(args, stream, []<class T>(T) { return &balance_grad<T>; });
}

template <>
i64 Workspace<ZLossArgs>::bytes(const ZLossArgs& args) {
  return bytes_of_rows(args.logits);
}

template <>
void run(const ZLossArgs& args, void* workspace, cudaStream_t stream) {
  run_loss(args, workspace, stream, []<class T>(T) { return &z_rows<T>; });
}

template <>
void run(const ZLossGradArgs& args, void*, cudaStream_t stream) {
  run_gradient(args, stream, []<class T>(T) { return &z_loss_grad<T>; });
}

template <>
void run(const ExpertBiasArgs& args, void*, cudaStream_t stream) {
  with_floating(args.kName, args.bias.dtype, [&]<class T>(T) {
    launch(expert_bias<T>,
           {.threads = 256, .shared_bytes = 256 / kWarp * static_cast<i64>(sizeof(i64))},
           stream,
           args.skipped.as<double>(),
           args.bias.as<T>(),
           args.counts.as<i64>(),
           args.bias.shape[0],
           args.rate);
  });
}

}  // namespace tessera::cuda
