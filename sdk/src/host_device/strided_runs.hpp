#pragma once
#include <array>

#include "tessera/parallel_for.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// The inner loop of a pass over one or two strided tensors of one shape: dimensions that lie
/// seamlessly in all of them are merged first, so that dense tensors become one run.
class StridedRuns {
 public:
  static constexpr i64 kGrain = 32768;

  StridedRuns(const TensorArg& out, const TensorArg& x) {
    for (int d = 0; d < out.rank; ++d) {
      if (out.shape[d] == 1) continue;
      const bool seamless = rank_ > 0 && out_strides_[rank_ - 1] == out.shape[d] * out.strides[d] &&
                            x_strides_[rank_ - 1] == x.shape[d] * x.strides[d];
      if (!seamless) {
        shape_[rank_] = 1;
        ++rank_;
      }
      shape_[rank_ - 1] *= out.shape[d];
      out_strides_[rank_ - 1] = out.strides[d];
      x_strides_[rank_ - 1] = x.strides[d];
    }
    if (rank_ == 0) rank_ = 1;
    length_ = shape_[rank_ - 1];
    for (int d = 0; d + 1 < rank_; ++d) outer_ *= shape_[d];
  }

  i64 out_stride() const { return out_strides_[rank_ - 1]; }
  i64 x_stride() const { return x_strides_[rank_ - 1]; }

  /// Calls f(offset in out, offset in x, length) for every run, on this rank's threads.
  template <class F>
  void for_each(F&& f) const {
    if (outer_ == 1) {
      parallel_for(length_, kGrain, [&](i64 begin, i64 end) {
        f(begin * out_stride(), begin * x_stride(), end - begin);
      });
      return;
    }
    parallel_for(outer_, 1 + kGrain / (length_ + 1), [&](i64 begin, i64 end) {
      for (i64 run = begin; run < end; ++run) {
        i64 rest = run, out = 0, x = 0;
        for (int d = rank_ - 2; d >= 0; --d) {
          out += rest % shape_[d] * out_strides_[d];
          x += rest % shape_[d] * x_strides_[d];
          rest /= shape_[d];
        }
        f(out, x, length_);
      }
    });
  }

 private:
  std::array<i64, kMaxRank> shape_{1}, out_strides_{1}, x_strides_{1};
  int rank_ = 0;
  i64 length_ = 1, outer_ = 1;
};

}  // namespace tessera
