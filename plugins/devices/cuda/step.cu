// The numbers of a step: reciprocal, maximum, step_scalars.
#include "gpu.hpp"
#include "kernels.hpp"
#include "tessera/ops/update.hpp"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void reciprocal(const i64* x, double* out, i64 elements) {
  const i64 i = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < elements) out[i] = x[i] == 0 ? 0.0 : 1.0 / static_cast<double>(x[i]);
}

__global__ void maximum(const double* a, const double* b, double* out, i64 elements) {
  const i64 i = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < elements) out[i] = a[i] != a[i] || a[i] > b[i] ? a[i] : b[i];
}

LaunchShape shape_of(const TensorArg& out) {
  return {.blocks = blocks_for(out.elements(), kThreads), .threads = kThreads};
}

/// One thread.
__global__ void step_scalars(const double* sum_squares,
                             const double* rates,
                             i64 count,
                             StepScalarsArgs args) {
  if (threadIdx.x != 0) return;
  auto* scalars = static_cast<double*>(args.scalars.address);
  const double sum = *sum_squares, loss_scale = scalars[step_scalar::kLossScale];
  const double norm = std::sqrt(sum) / loss_scale;
  const bool finite = sum - sum == 0;
  const LossScaling& scaling = args.scaling;
  const bool explained = scaling.window > 0 && loss_scale > scaling.least;  // by the loss scale
  scalars[step_scalar::kNorm] = norm;
  scalars[step_scalar::kFoundInf] = finite ? kFinite : explained ? kScaleTooLarge : kNotExplained;
  scalars[step_scalar::kGradientScale] = 0;
  scaling.move(scalars, finite);
  if (!finite) return;
  const double clip = args.clip > 0 ? std::fmin(1.0, args.clip / (norm + 1e-6)) : 1.0;
  scalars[step_scalar::kGradientScale] = clip / loss_scale;
  scalars[step_scalar::kSteps] += 1;
  const i64 step = static_cast<i64>(scalars[step_scalar::kSteps]);
  scalars[step_scalar::kLearningRate] = rates[(step - 1) % count];
}

}  // namespace

template <>
void run(const ReciprocalArgs& args, void*, cudaStream_t stream) {
  launch(reciprocal,
         shape_of(args.out),
         stream,
         args.x.as<i64>(),
         args.out.as<double>(),
         args.out.elements());
}

template <>
void run(const MaximumArgs& args, void*, cudaStream_t stream) {
  launch(maximum,
         shape_of(args.out),
         stream,
         args.a.as<double>(),
         args.b.as<double>(),
         args.out.as<double>(),
         args.out.elements());
}

template <>
void run(const StepScalarsArgs& args, void*, cudaStream_t stream) {
  launch(step_scalars,
         {.threads = kWarp},
         stream,
         args.sum_squares.as<double>(),
         args.rates.as<double>(),
         args.rates.shape[0],
         args);
}

}  // namespace tessera::cuda
