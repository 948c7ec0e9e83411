#include <algorithm>
#include <cmath>

#include "registration.hpp"

// Operations on a handful of scalars, or in one thread's order by definition: nothing to vectorise.
namespace tessera::cpu {
namespace {

void cross_entropy_loss(const CrossEntropyLossArgs& args) {
  const float* sums = args.sums.as<const float>();
  const i64 stride = args.sums.strides[0];
  const u8* mask = args.mask.as<const u8>();
  double total = 0;
  for (i64 row = 0; row < args.sums.shape[0]; ++row) {
    if (mask[row] == 0) continue;
    const float* pair = sums + row * stride;
    total += std::log(static_cast<double>(pair[0])) - static_cast<double>(pair[1]);
  }
  *args.out.as<double>() = total * *args.inverse_weight.as<const double>();
}

void reciprocal(const ReciprocalArgs& args) {
  const i64* x = args.x.as<const i64>();
  double* out = args.out.as<double>();
  for (i64 i = 0; i < args.x.elements(); ++i) {
    out[i] = x[i] == 0 ? 0.0 : 1.0 / static_cast<double>(x[i]);
  }
}

void step_scalars(const StepScalarsArgs& args) {
  double* scalars = args.scalars.as<double>();
  const double sum = *args.sum_squares.as<const double>();
  const double loss_scale = scalars[step_scalar::kLossScale];
  const double norm = std::sqrt(sum) / loss_scale;
  const bool finite = std::isfinite(sum);
  scalars[step_scalar::kNorm] = norm;
  scalars[step_scalar::kFoundInf] = finite ? 0 : 1;
  scalars[step_scalar::kGradientScale] = 0;
  if (!finite) return;
  const double clip = args.clip > 0 ? std::min(1.0, args.clip / (norm + 1e-6)) : 1.0;
  scalars[step_scalar::kGradientScale] = clip / loss_scale;
  scalars[step_scalar::kSteps] += 1;
  const i64 step = static_cast<i64>(scalars[step_scalar::kSteps]);
  const i64 last = args.rates.shape[0];
  scalars[step_scalar::kLearningRate] = args.rates.as<const double>()[std::min(step, last) - 1];
}

// Losses and metrics are accumulated in f64: a few elements.
void add_doubles(const AddArgs& args) {
  const double *a = args.a.as<const double>(), *b = args.b.as<const double>();
  double* out = args.out.as<double>();
  for (i64 i = 0; i < args.out.elements(); ++i) out[i] = a[i] + b[i];
}

}  // namespace

void add_scalar_kernels(std::vector<Kernel>& kernels, const Kernels& table) {
  kernels.push_back(make_kernel<AddArgs>(
      [](const AddArgs& args) {
        if (args.a.dtype != DType::f64) check_types(args);
        return Setup{};
      },
      [add = table.add](const AddArgs& args, void*, Stream&) {
        args.a.dtype == DType::f64 ? add_doubles(args) : add(args);
      }));
  kernels.push_back(make_kernel<CrossEntropyLossArgs>(
      [](const CrossEntropyLossArgs& args) {
        check_types(args, {2, 3});  // inverse_weight, out
        return Setup{};
      },
      [](const CrossEntropyLossArgs& args, void*, Stream&) { cross_entropy_loss(args); }));
  kernels.push_back(make_kernel<ReciprocalArgs>(&reciprocal));
  kernels.push_back(make_kernel<StepScalarsArgs>(&step_scalars));
}

}  // namespace tessera::cpu
