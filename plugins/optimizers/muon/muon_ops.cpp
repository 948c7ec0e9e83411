#include "muon_ops.hpp"

#include <cmath>

#include "tessera/ops/update.hpp"
#include "tessera/parallel_for.hpp"
#include "tessera/store_compute.hpp"

namespace tessera {

namespace {

constexpr i64 kGrain = 1 << 14;

void require_equal(std::string_view name, const TensorArg& a, const TensorArg& b) {
  require(a.elements() == b.elements() && a.dtype == b.dtype,
          "{}: tensors of {} {} and {} {} elements",
          name,
          a.elements(),
          dtype_name(a.dtype),
          b.elements(),
          dtype_name(b.dtype));
}

template <class Args, class Body>
void with_real(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::fp32:
      return body(float{});
    case DType::fp64:
      return body(double{});
    default:
      fail("{}: needs precision.main = \"fp32\" or \"fp64\", not {}",
           Args::kName,
           dtype_name(dtype));
  }
}

bool skipped(const TensorArg& scalars) {
  return scalars.as<const double>()[step_scalar::kFoundInf] != 0;
}

void momentum(const MuonMomentumArgs& args) {
  with_real<MuonMomentumArgs>(args.grad.dtype, [&]<class T>(T) {
    const T scale = static_cast<T>(args.scalars.as<const double>()[step_scalar::kGradientScale]);
    const T beta = static_cast<T>(args.beta);
    const bool skip = skipped(args.scalars);
    with_floating(args.kName, args.momentum.dtype, [&]<class State>(State) {
      for_each_shard(args.ranges, args.hyper, kGrain, [&](const ShardRun& run) {
        T* grad = args.grad.as<T>() + run.grad;
        State* momentum = args.momentum.as<State>() + run.state;
        for (i64 i = 0; i < run.length; ++i) {
          const T g = grad[i] * scale;
          const T now = beta * static_cast<T>(momentum[i]) + g;
          if (!skip) momentum[i] = static_cast<State>(now);
          grad[i] = skip ? T{} : g + beta * now;
        }
      });
    });
  });
}

void normalize(const MuonNormalizeArgs& args) {
  with_real<MuonNormalizeArgs>(args.x.dtype, [&]<class T>(T) {
    T* x = args.x.as<T>();
    double sum = 0;
    for (i64 i = 0; i < args.x.elements(); ++i) sum += static_cast<double>(x[i]) * x[i];
    const T by = static_cast<T>(1 / (std::sqrt(sum) + 1e-7));
    parallel_for(args.x.elements(), kGrain, [=](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) x[i] *= by;
    });
  });
}

void combine(const MuonCombineArgs& args) {
  with_real<MuonCombineArgs>(args.x.dtype, [&]<class T>(T) {
    const T *x = args.x.as<const T>(), *y = args.y.as<const T>();
    const T a = static_cast<T>(args.a), b = static_cast<T>(args.b);
    T* out = args.out.as<T>();
    parallel_for(args.x.elements(), kGrain, [=](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) out[i] = a * x[i] + b * y[i];
    });
  });
}

void apply(const MuonApplyArgs& args) {
  const bool skip = skipped(args.scalars);
  const double lr = args.scalars.as<const double>()[step_scalar::kLearningRate];
  with_real<MuonApplyArgs>(args.main.dtype, [&]<class T>(T) {
    for_each_shard(args.ranges, args.hyper, kGrain, [&](const ShardRun& run) {
      const double rate = lr * run.lr_scale;
      const T step = static_cast<T>(rate * args.scale);
      const T decay = static_cast<T>(rate * run.weight_decay);
      T *grad = args.grad.as<T>() + run.grad, *main = args.main.as<T>() + run.main;
      for (i64 i = 0; i < run.length; ++i) {
        if (!skip) main[i] -= step * grad[i] + decay * main[i];
        grad[i] = T{};
      }
      if (!skip) store_compute(args.compute, run, main);
    });
  });
}

}  // namespace

void MuonMomentumArgs::infer(MuonMomentumArgs& args) {
  require(
      args.momentum.dtype != DType::fp16, "{}: the state of an update rule cannot be fp16", kName);
}

void MuonNormalizeArgs::infer(MuonNormalizeArgs&) {}

void MuonCombineArgs::infer(MuonCombineArgs& args) {
  require_equal(kName, args.x, args.y);
  require_equal(kName, args.x, args.out);
}

void MuonApplyArgs::infer(MuonApplyArgs&) {}

std::vector<Kernel> muon_kernels() {
  return {make_kernel<MuonMomentumArgs>(&momentum),
          make_kernel<MuonNormalizeArgs>(&normalize),
          make_kernel<MuonCombineArgs>(&combine),
          make_kernel<MuonApplyArgs>(&apply)};
}

}  // namespace tessera
