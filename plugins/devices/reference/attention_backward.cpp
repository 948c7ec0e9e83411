#include <cmath>
#include <vector>

#include "attention.hpp"
#include "kernels.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::reference {
namespace {

/// With probabilities p = exp(score - lse), kept or dropped by m (0 or 1 / (1 - dropout)):
/// dv_j = Σ_i p m g_i, dp = m (g_i · v_j), dscore = p (dp - Σ p dp), and Σ_j p dp = g_i · out_i.
template <class T>
class Backward {
 public:
  explicit Backward(const AttentionBackwardArgs& args)
      : args_(args), q_(args.q), k_(args.k), v_(args.v), out_(args.out), grad_(args.grad) {}

  void run() const {
    const i64 kv_heads = args_.k.shape[2];
    parallel_for(args_.q.shape[0] * kv_heads, 1, [&](i64 begin, i64 end) {
      for (i64 n = begin; n < end; ++n) group(n / kv_heads, n % kv_heads);
    });
  }

 private:
  /// All queries of the heads that share one head of k and v.
  void group(i64 sample, i64 kv_head) const {
    std::vector<double> k_grad(static_cast<std::size_t>(keys_ * features_)),
        v_grad(static_cast<std::size_t>(keys_ * values_));
    const i64 shared = heads_ / args_.k.shape[2];
    for (i64 head = kv_head * shared; head < (kv_head + 1) * shared; ++head) {
      for (i64 i = 0; i < queries_; ++i) {
        query(sample, head, kv_head, i, k_grad.data(), v_grad.data());
      }
    }
    store(args_.k_grad, sample, kv_head, k_grad.data());
    store(args_.v_grad, sample, kv_head, v_grad.data());
  }

  void query(i64 sample, i64 head, i64 kv_head, i64 i, double* k_grad, double* v_grad) const {
    const AttentionSpec& spec = args_.spec;
    const auto [begin, end] = keys_of(args_, sample, i);
    const auto* lses = args_.lse.as<const Statistic<T>>();
    const double lse = lses[(sample * heads_ + head) * queries_ + i];
    const double delta = dot(grad_, i, head, out_, i, head, sample, values_);
    std::vector<double> q_grad(static_cast<std::size_t>(features_));
    for (i64 j = begin; j < end; ++j) {
      const double score = spec.scale * dot(q_, i, head, k_, j, kv_head, sample, features_);
      const double p = std::exp(score - lse);
      double keep = 1;
      if (spec.dropout > 0) {
        const i64 row = args_.row_ids.as<const i64>()[sample * queries_ + i];
        keep = attention_keep(spec, row, head, j);
      }
      const double p_grad = keep * dot(grad_, i, head, v_, j, kv_head, sample, values_);
      const double dot_grad = spec.scale * p * (p_grad - delta);
      for (i64 f = 0; f < values_; ++f) {
        v_grad[j * values_ + f] += p * keep * static_cast<double>(grad_(sample, i, head, f));
      }
      for (i64 f = 0; f < features_; ++f) {
        k_grad[j * features_ + f] += dot_grad * static_cast<double>(q_(sample, i, head, f));
        q_grad[static_cast<std::size_t>(f)] +=
            dot_grad * static_cast<double>(k_(sample, j, kv_head, f));
      }
    }
    const HeadVectors<T> result(args_.q_grad);
    for (i64 f = 0; f < features_; ++f) {
      result(sample, i, head, f) = static_cast<T>(q_grad[static_cast<std::size_t>(f)]);
    }
  }

  void store(const TensorArg& tensor, i64 sample, i64 kv_head, const double* values) const {
    const HeadVectors<T> result(tensor);
    const i64 features = tensor.shape[3];
    for (i64 j = 0; j < keys_; ++j) {
      for (i64 f = 0; f < features; ++f) {
        result(sample, j, kv_head, f) = static_cast<T>(values[j * features + f]);
      }
    }
  }

  const AttentionBackwardArgs& args_;
  HeadVectors<const T> q_, k_, v_, out_, grad_;
  i64 queries_ = args_.q.shape[1], heads_ = args_.q.shape[2], features_ = args_.q.shape[3];
  i64 keys_ = args_.k.shape[1], values_ = args_.v.shape[3];
};

}  // namespace

template <>
void run(const AttentionBackwardArgs& args) {
  with_floating(args.kName, args.q.dtype, [&]<class T>(T) { Backward<T>(args).run(); });
}

}  // namespace tessera::reference
