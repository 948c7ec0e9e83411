#include "sdk/src/host_device/host_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "sdk/src/host_device/strided_runs.hpp"
#include "tessera/device/core_ops.hpp"
#include "tessera/device/small_floats.hpp"
#include "tessera/parallel_for.hpp"
#include "tessera/with_type.hpp"

namespace tessera {
namespace {

template <class T>
constexpr bool kSmallFloat = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <class To, class From>
To convert(From value) {
  constexpr bool kFloats = std::is_same_v<To, float> || std::is_same_v<From, float>;
  if constexpr ((kSmallFloat<To> || kSmallFloat<From>)&&!kFloats) {
    return static_cast<To>(static_cast<double>(value));
  } else {
    return static_cast<To>(value);
  }
}

void fill(const FillArgs& args) {
  if (args.out.elements() == 0) return;
  const StridedRuns runs(args.out, args.out);
  const i64 stride = runs.out_stride();
  with_type(args.kName, args.out.dtype, [&]<class T>(T) {
    T* out = args.out.as<T>();
    const T value = convert<T>(args.value);
    runs.for_each([=](i64 offset, i64, i64 length) {
      T* to = out + offset;
      if (stride == 1) {
        std::fill_n(to, length, value);
      } else {
        for (i64 i = 0; i < length; ++i) to[i * stride] = value;
      }
    });
  });
}

/// Values of one dtype are copied as bits: T is an unsigned integer of their size.
template <class T>
void copy_bits(const CopyArgs& args, const StridedRuns& runs) {
  const T* x = args.x.as<const T>();
  T* out = args.out.as<T>();
  const i64 to_stride = runs.out_stride(), from_stride = runs.x_stride();
  runs.for_each([=](i64 out_offset, i64 x_offset, i64 length) {
    T* to = out + out_offset;
    const T* from = x + x_offset;
    if (to_stride == 1 && from_stride == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(length) * sizeof(T));
      return;
    }
    for (i64 i = 0; i < length; ++i) to[i * to_stride] = from[i * from_stride];
  });
}

void copy(const CopyArgs& args) {
  if (args.out.elements() == 0) return;
  const StridedRuns runs(args.out, args.x);
  if (args.x.dtype == args.out.dtype) {
    switch (dtype_size(args.x.dtype)) {
      case 8:
        return copy_bits<u64>(args, runs);
      case 4:
        return copy_bits<u32>(args, runs);
      case 2:
        return copy_bits<std::uint16_t>(args, runs);
      default:
        return copy_bits<u8>(args, runs);
    }
  }
  const i64 to_stride = runs.out_stride(), from_stride = runs.x_stride();
  with_type(args.kName, args.x.dtype, [&]<class From>(From) {
    with_type(args.kName, args.out.dtype, [&]<class To>(To) {
      const From* x = args.x.as<const From>();
      To* out = args.out.as<To>();
      runs.for_each([=](i64 out_offset, i64 x_offset, i64 length) {
        for (i64 i = 0; i < length; ++i) {
          out[out_offset + i * to_stride] = convert<To>(x[x_offset + i * from_stride]);
        }
      });
    });
  });
}

void reciprocal(const ReciprocalArgs& args) {
  const i64* x = args.x.as<const i64>();
  double* out = args.out.as<double>();
  for (i64 i = 0; i < args.x.elements(); ++i) {
    out[i] = x[i] == 0 ? 0.0 : 1.0 / static_cast<double>(x[i]);
  }
}

void maximum(const MaximumArgs& args) {
  const double *a = args.a.as<const double>(), *b = args.b.as<const double>();
  double* out = args.out.as<double>();
  for (i64 i = 0; i < args.out.elements(); ++i) {
    out[i] = std::isnan(a[i]) || a[i] > b[i] ? a[i] : b[i];
  }
}

void sum_blocks(const SumBlocksArgs& args) {
  const double* blocks = args.blocks.as<const double>();
  const i64* range = args.ranges.as<const i64>();
  double& out = *args.out.as<double>();
  for (i64 r = 0; r < args.ranges.shape[0]; ++r) {
    double total = 0;
    for (i64 b = range[2 * r]; b < range[2 * r] + range[2 * r + 1]; ++b) total += blocks[b];
    out += total;
  }
}

void step_scalars(const StepScalarsArgs& args) {
  double* scalars = args.scalars.as<double>();
  const double sum = *args.sum_squares.as<const double>();
  const double loss_scale = scalars[step_scalar::kLossScale];
  const double norm = std::sqrt(sum) / loss_scale;
  const FoundInf found = args.scaling.found_inf(sum, loss_scale);
  const bool finite = found == kFinite;
  scalars[step_scalar::kNorm] = norm;
  scalars[step_scalar::kFoundInf] = found;
  scalars[step_scalar::kGradientScale] = 0;
  args.scaling.move(scalars, finite);
  if (!finite) return;
  const double clip = args.clip > 0 ? std::min(1.0, args.clip / (norm + 1e-6)) : 1.0;
  scalars[step_scalar::kGradientScale] = clip / loss_scale;
  scalars[step_scalar::kSteps] += 1;
  const i64 step = static_cast<i64>(scalars[step_scalar::kSteps]);
  const i64 place = (step - 1) % args.rates.shape[0];
  scalars[step_scalar::kLearningRate] = args.rates.as<const double>()[place];
}

}  // namespace

std::vector<Kernel> host_kernels() {
  std::vector<Kernel> all = host_kernels_moe();
  for (Kernel& kernel : host_kernels_router()) all.push_back(std::move(kernel));
  all.push_back(make_kernel<FillArgs>(&fill));
  all.push_back(make_kernel<CopyArgs>(&copy));
  all.push_back(make_kernel<ReciprocalArgs>(&reciprocal));
  all.push_back(make_kernel<MaximumArgs>(&maximum));
  all.push_back(make_kernel<SumBlocksArgs>(&sum_blocks));
  all.push_back(make_kernel<StepScalarsArgs>(&step_scalars));
  return all;
}

}  // namespace tessera
