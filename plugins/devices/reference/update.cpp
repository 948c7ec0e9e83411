#include <algorithm>
#include <cmath>

#include "elements.hpp"
#include "kernels.hpp"
#include "tessera/for_each_shard.hpp"
#include "tessera/ops/update.hpp"

namespace tessera::reference {
namespace {

/// Calls update(place in main, place in the state, gradient, learning rate, weight decay) for every
/// element of every shard, unless the step is skipped, then zeroes the gradient and stores the
/// rounded copy.
template <class T, class Args, class Update>
void update_elements(const Args& args, Update&& update) {
  const double* step = args.scalars.template as<const double>();
  const bool skip = step[step_scalar::kFoundInf] != 0;
  const double scale = step[step_scalar::kGradientScale];
  const double lr = step[step_scalar::kLearningRate];
  T* gradient = args.grad.template as<T>();
  const T* main = args.main.template as<T>();
  for_each_shard(args.ranges, args.hyper, kGrain, [&](const ShardRun& run) {
    const double rate = lr * run.lr_scale;
    for (i64 i = 0; i < run.length; ++i) {
      T& g = gradient[run.grad + i];
      if (!skip) {
        update(run.main + i, run.state + i, scale * static_cast<double>(g), rate, run.weight_decay);
      }
      g = T{};
    }
    if (skip || !args.compute) return;
    with_floating(args.kName, args.compute.dtype, [&]<class Rounded>(Rounded) {
      Rounded* to = args.compute.template as<Rounded>() + run.grad;
      const T* from = main + run.main;
      for (i64 i = 0; i < run.length; ++i) to[i] = Rounded(static_cast<double>(from[i]));
    });
  });
}

/// Calls body with a value of main's type and of the state's.
template <class Args, class Body>
void with_types(const Args& args, DType state, Body&& body) {
  with_floating(args.kName, args.main.dtype, [&]<class T>(T main) {
    with_floating(args.kName, state, [&]<class S>(S of_state) { body(main, of_state); });
  });
}

template <class T>
double squares(const T* x, i64 n) {
  double sum = 0;
  for (i64 i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace

template <>
void run(const SumSquaresArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const T* x = args.x.as<const T>();
    const i64 whole[] = {0, args.x.elements()};
    const i64* range = args.ranges ? args.ranges.as<const i64>() : whole;
    for (i64 r = 0; r < (args.ranges ? args.ranges.shape[0] : 1); ++r) {
      const i64 end = range[2 * r] + range[2 * r + 1];
      double sum = 0;
      for (i64 begin = range[2 * r]; begin < end; begin += kSquareBlock) {
        sum += squares(x + begin, std::min(kSquareBlock, end - begin));
      }
      *args.out.as<double>() += sum;
    }
  });
}

template <>
void run(const BlockSquaresArgs& args) {
  with_floating(args.kName, args.x.dtype, [&]<class T>(T) {
    const T* x = args.x.as<const T>();
    const i64* block = args.blocks.as<const i64>();
    double* out = args.out.as<double>();
    for (i64 b = 0; b < args.blocks.shape[0]; ++b, block += 3) {
      out[block[2]] = squares(x + block[0], block[1]);
    }
  });
}

template <>
void run(const AdamWArgs& args) {
  with_types(args, args.first_moment.dtype, [&]<class T, class S>(T, S) {
    T* main = args.main.as<T>();
    S *first = args.first_moment.as<S>(), *second = args.second_moment.as<S>();
    const double steps = args.scalars.as<const double>()[step_scalar::kSteps];
    const double first_correction = 1 - std::pow(args.beta1, steps);
    const double second_correction = 1 - std::pow(args.beta2, steps);
    update_elements<T>(args, [&](i64 i, i64 at, double g, double rate, double decay) {
      const double m = args.beta1 * static_cast<double>(first[at]) + (1 - args.beta1) * g;
      const double v = args.beta2 * static_cast<double>(second[at]) + (1 - args.beta2) * g * g;
      const double direction = m / first_correction / (std::sqrt(v / second_correction) + args.eps);
      const double value = static_cast<double>(main[i]);
      main[i] = static_cast<T>(value - rate * (direction + decay * value));
      first[at] = static_cast<S>(m);
      second[at] = static_cast<S>(v);
    });
  });
}

template <>
void run(const SgdArgs& args) {
  const DType state = args.momentum_buffer ? args.momentum_buffer.dtype : args.main.dtype;
  with_types(args, state, [&]<class T, class S>(T, S) {
    T* main = args.main.as<T>();
    S* buffer = args.momentum_buffer.as<S>();
    update_elements<T>(args, [&](i64 i, i64 at, double g, double rate, double decay) {
      double direction = g;
      if (args.momentum_buffer) {
        direction += args.momentum * static_cast<double>(buffer[at]);
        buffer[at] = static_cast<S>(direction);
      }
      const double value = static_cast<double>(main[i]);
      main[i] = static_cast<T>(value - rate * (direction + decay * value));
    });
  });
}

}  // namespace tessera::reference
