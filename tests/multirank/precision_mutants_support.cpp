#include "precision_mutants_support.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "tessera/device/core_ops.hpp"
#include "tessera/device/small_floats.hpp"

namespace tessera::testing {

namespace {

double in_bf16(double value) { return static_cast<double>(BFloat16(value)); }

std::vector<BFloat16> values_of(Context& cx, const Tensor& x) {
  std::vector<BFloat16> values(static_cast<std::size_t>(x.elements()));
  cx.device->read(x, values.data());
  return values;
}

// What the kernel of every CPU device does for a fixed scale, but for the norm.
void scaled_norm(const StepScalarsArgs& args) {
  double* scalars = args.scalars.as<double>();
  const double norm = std::sqrt(*args.sum_squares.as<const double>());
  const double clip = args.clip > 0 ? std::min(1.0, args.clip / (norm + 1e-6)) : 1.0;
  scalars[step_scalar::kNorm] = norm;
  scalars[step_scalar::kGradientScale] = clip / scalars[step_scalar::kLossScale];
  scalars[step_scalar::kSteps] += 1;
  const i64 place = (static_cast<i64>(scalars[step_scalar::kSteps]) - 1) % args.rates.shape[0];
  scalars[step_scalar::kLearningRate] = args.rates.as<const double>()[place];
}

}  // namespace

void norm_in_bf16(
    Context& cx, const Tensor& x, const Parameter& weight, const Parameter& bias, const Tensor& y) {
  const auto weights = values_of(cx, weight.compute), biases = values_of(cx, bias.compute);
  std::vector<BFloat16> values = values_of(cx, x);
  const auto count = static_cast<double>(weights.size());
  for (auto row = values.begin(); row != values.end(); row += std::ssize(weights)) {
    const auto at = [&](std::size_t j) { return static_cast<double>(row[static_cast<i64>(j)]); };
    double sum = 0, squares = 0;
    for (std::size_t j = 0; j < weights.size(); ++j) sum = in_bf16(sum + at(j));
    const double mean = in_bf16(sum / count);
    for (std::size_t j = 0; j < weights.size(); ++j) {
      const double centred = in_bf16(at(j) - mean);
      squares = in_bf16(squares + in_bf16(centred * centred));
    }
    const double rstd = in_bf16(1 / std::sqrt(in_bf16(squares / count) + 1e-5));
    for (std::size_t j = 0; j < weights.size(); ++j) {
      const double normal = in_bf16(in_bf16(at(j) - mean) * rstd);
      const double weighted = in_bf16(normal * static_cast<double>(weights[j]));
      row[static_cast<i64>(j)] = BFloat16(weighted + static_cast<double>(biases[j]));
    }
  }
  cx.device->write(y, values.data());
}

void register_scaled_norm(Registrar& registrar) {
  registrar.add_kernel("reference", make_kernel<StepScalarsArgs>(&scaled_norm));
}

}  // namespace tessera::testing
