#include "attention.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "kernels.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::reference {
namespace {

template <class T>
class Forward {
 public:
  explicit Forward(const AttentionArgs& args)
      : args_(args), q_(args.q), k_(args.k), v_(args.v), out_(args.out) {}

  void run() const {
    parallel_for(args_.q.shape[0] * heads_ * queries_, 4, [&](i64 begin, i64 end) {
      std::vector<double> weights(static_cast<std::size_t>(keys_));
      for (i64 n = begin; n < end; ++n) {
        query(n / (heads_ * queries_), n / queries_ % heads_, n % queries_, weights.data());
      }
    });
  }

 private:
  void query(i64 sample, i64 head, i64 i, double* weights) const {
    const AttentionSpec& spec = args_.spec;
    const i64 kv_head = head / (heads_ / args_.k.shape[2]);
    const auto [begin, end] = keys_of(args_, sample, i);
    double largest = -std::numeric_limits<double>::infinity();
    for (i64 j = begin; j < end; ++j) {
      weights[j] = spec.scale * dot(q_, i, head, k_, j, kv_head, sample, features_);
      largest = std::max(largest, weights[j]);
    }
    double sum = 0;
    for (i64 j = begin; j < end; ++j) {
      weights[j] = std::exp(weights[j] - largest);
      sum += weights[j];
    }
    for (i64 j = begin; j < end; ++j) {
      weights[j] /= sum;
      if (spec.dropout > 0) {
        const i64 row = args_.row_ids.as<const i64>()[sample * queries_ + i];
        weights[j] *= attention_keep(spec, row, head, j);
      }
    }
    for (i64 f = 0; f < args_.v.shape[3]; ++f) {
      double value = 0;
      for (i64 j = begin; j < end; ++j) {
        value += weights[j] * static_cast<double>(v_(sample, j, kv_head, f));
      }
      out_(sample, i, head, f) = static_cast<T>(value);
    }
    args_.lse.as<Statistic<T>>()[(sample * heads_ + head) * queries_ + i] =
        static_cast<Statistic<T>>(begin < end ? largest + std::log(sum) : largest);
  }

  const AttentionArgs& args_;
  HeadVectors<const T> q_, k_, v_;
  HeadVectors<T> out_;
  i64 queries_ = args_.q.shape[1], heads_ = args_.q.shape[2], features_ = args_.q.shape[3];
  i64 keys_ = args_.k.shape[1];
};

}  // namespace

template <>
void run(const AttentionArgs& args) {
  with_floating(args.kName, args.q.dtype, [&]<class T>(T) { Forward<T>(args).run(); });
}

}  // namespace tessera::reference
