#include <algorithm>
#include <cmath>

#include "elements.hpp"
#include "kernels.hpp"
#include "tessera/ops/update.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::reference {
namespace {

constexpr i64 kGrain = 4096;

/// Calls update(i, gradient of element i) for every element, unless the step is skipped, then
/// zeroes the gradient and stores the rounded copy.
template <class T, class Update>
void update_elements(std::string_view name,
                     const TensorArg& scalars,
                     const TensorArg& grad,
                     const TensorArg& main,
                     const TensorArg& compute,
                     Update&& update) {
  const double* step = scalars.as<const double>();
  const bool skip = step[step_scalar::kFoundInf] != 0;
  const double scale = step[step_scalar::kGradientScale];
  T* gradient = grad.as<T>();
  parallel_for(main.elements(), kGrain, [&](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) {
      if (!skip) update(i, scale * static_cast<double>(gradient[i]));
      gradient[i] = T{};
    }
  });
  if (skip || !compute) return;
  with_floating(name, compute.dtype, [&]<class Rounded>(Rounded) {
    const T* from = main.as<const T>();
    Rounded* to = compute.as<Rounded>();
    for (i64 i = 0; i < main.elements(); ++i) to[i] = Rounded(static_cast<double>(from[i]));
  });
}

}  // namespace

template <>
void run(const SumSquaresArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const T* x = args.x.as<const T>();
    double sum = 0;
    for (i64 i = 0; i < args.x.elements(); ++i) {
      sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
    *args.out.as<double>() += sum;
  });
}

template <>
void run(const AdamWArgs& args) {
  with_floating(args.kName, args.main.dtype, [&]<class T>(T) {
    T *main = args.main.as<T>(), *first = args.first_moment.as<T>(),
      *second = args.second_moment.as<T>();
    const double* scalars = args.scalars.as<const double>();
    const double steps = scalars[step_scalar::kSteps];
    const double rate = scalars[step_scalar::kLearningRate] * args.lr_scale;
    const double first_correction = 1 - std::pow(args.beta1, steps);
    const double second_correction = 1 - std::pow(args.beta2, steps);
    update_elements<T>(
        args.kName, args.scalars, args.grad, args.main, args.compute, [&](i64 i, double g) {
          const double m = args.beta1 * static_cast<double>(first[i]) + (1 - args.beta1) * g;
          const double v = args.beta2 * static_cast<double>(second[i]) + (1 - args.beta2) * g * g;
          const double direction =
              m / first_correction / (std::sqrt(v / second_correction) + args.eps);
          const double value = static_cast<double>(main[i]);
          main[i] = static_cast<T>(value - rate * (direction + args.weight_decay * value));
          first[i] = static_cast<T>(m);
          second[i] = static_cast<T>(v);
        });
  });
}

template <>
void run(const SgdArgs& args) {
  with_floating(args.kName, args.main.dtype, [&]<class T>(T) {
    T *main = args.main.as<T>(), *buffer = args.momentum_buffer.as<T>();
    const double rate = args.scalars.as<const double>()[step_scalar::kLearningRate] * args.lr_scale;
    update_elements<T>(
        args.kName, args.scalars, args.grad, args.main, args.compute, [&](i64 i, double g) {
          double direction = g;
          if (args.momentum_buffer) {
            direction += args.momentum * static_cast<double>(buffer[i]);
            buffer[i] = static_cast<T>(direction);
          }
          const double value = static_cast<double>(main[i]);
          main[i] = static_cast<T>(value - rate * (direction + args.weight_decay * value));
        });
  });
}

}  // namespace tessera::reference
