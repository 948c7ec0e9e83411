#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "elements.hpp"
#include "kernels.hpp"
#include "tessera/ops/cross_entropy.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::reference {

template <>
void run(const CrossEntropyMaxArgs& args) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    const Matrix<const T> logits(args.logits);
    auto* out = args.out.as<Statistic<T>>();
    parallel_for(args.logits.shape[0], 8, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        double largest = -std::numeric_limits<double>::infinity();
        for (i64 j = 0; j < args.valid; ++j) {
          largest = std::max(largest, static_cast<double>(logits(i, j)));
        }
        out[i] = static_cast<Statistic<T>>(largest);
      }
    });
  });
}

template <>
void run(const CrossEntropySumsArgs& args) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    const Matrix<const T> logits(args.logits);
    const i64* targets = args.targets.as<const i64>();
    const auto* max = args.max.as<const Statistic<T>>();
    const Matrix<Statistic<T>> out(args.out);
    parallel_for(args.logits.shape[0], 8, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        const double largest = max[i];
        double sum = 0, target = 0;
        for (i64 j = 0; j < args.valid; ++j) {
          const double logit = static_cast<double>(logits(i, j)) - largest;
          sum += std::exp(logit);
          if (args.first + j == targets[i]) target = logit;
        }
        out(i, 0) = static_cast<Statistic<T>>(sum);
        out(i, 1) = static_cast<Statistic<T>>(target);
      }
    });
  });
}

template <>
void run(const CrossEntropyLossArgs& args) {
  with_floating(args.kName, args.sums.dtype, [&]<class T>(T) {
    const Matrix<const T> sums(args.sums);
    const u8* mask = args.mask.as<const u8>();
    double loss = 0;
    for (i64 i = 0; i < args.sums.shape[0]; ++i) {
      if (mask[i] == 0) continue;
      if (args.hits) {
        loss += static_cast<double>(sums(i, 1)) == 0 ? 1 : 0;
      } else {
        loss += std::log(static_cast<double>(sums(i, 0))) - static_cast<double>(sums(i, 1));
      }
    }
    *args.out.as<double>() = *args.inverse_weight.as<const double>() * loss;
  });
}

template <>
void run(const CrossEntropyGradArgs& args) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    const Matrix<const T> logits(args.logits);
    const i64* targets = args.targets.as<const i64>();
    const auto* max = args.max.as<const Statistic<T>>();
    const Matrix<const Statistic<T>> sums(args.sums);
    const u8* mask = args.mask.as<const u8>();
    const Matrix<T> out(args.out);
    const double scale = *args.grad.as<const double>() * *args.inverse_weight.as<const double>();
    parallel_for(args.logits.shape[0], 8, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        const double largest = max[i], sum = sums(i, 0);
        for (i64 j = 0; j < args.logits.shape[1]; ++j) {
          double value = 0;
          if (j < args.valid && mask[i] != 0) {
            const double softmax = std::exp(static_cast<double>(logits(i, j)) - largest) / sum;
            value = scale * (softmax - (args.first + j == targets[i] ? 1 : 0));
          }
          out(i, j) = static_cast<T>(value);
        }
      }
    });
  });
}

template <>
void run(const WholeCrossEntropyArgs& args) {
  with_floating(args.kName, args.logits.dtype, [&]<class T>(T) {
    std::vector<Statistic<T>> largest(static_cast<std::size_t>(args.logits.shape[0]));
    TensorArg max = args.sums;
    max.address = largest.data();
    max.rank = 1;
    max.strides[0] = 1;
    run(CrossEntropyMaxArgs{args.logits, max, args.valid});
    run(CrossEntropySumsArgs{args.logits, args.targets, max, args.sums, 0, args.valid});
    if (!args.out) return;
    run(CrossEntropyGradArgs{args.logits,
                             args.targets,
                             max,
                             args.sums,
                             args.mask,
                             args.inverse_weight,
                             args.grad,
                             args.out,
                             0,
                             args.valid});
  });
}

}  // namespace tessera::reference
