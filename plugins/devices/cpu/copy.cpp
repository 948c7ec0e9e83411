#include <array>
#include <cstring>
#include <type_traits>

#include "registration.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu {
namespace {

constexpr i64 kGrain = 32768;

/// The inner loop of a pass over one or two strided tensors of one shape: dimensions that lie
/// seamlessly in all of them are merged first, so that dense tensors become one run.
class Runs {
 public:
  Runs(const TensorArg& out, const TensorArg& x) {
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

/// Calls f with a value of the C++ type of a dtype.
template <class F>
void with_type(std::string_view operation, DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::i64:
      return f(i64{});
    case DType::i32:
      return f(i32{});
    case DType::u8:
      return f(u8{});
    case DType::boolean:
      return f(bool{});
    default:
      fail("{} on the device \"cpu\" has no {}; the device \"reference\" has",
           operation,
           dtype_name(dtype));
  }
}

/// An unsigned integer of each size: values of one dtype are copied as bits.
template <class F>
void with_bits(i64 bytes, F&& f) {
  if (bytes == 8) return f(u64{});
  if (bytes == 4) return f(u32{});
  if (bytes == 2) return f(std::uint16_t{});
  return f(u8{});
}

void fill(const FillArgs& args) {
  if (args.out.elements() == 0) return;
  const Runs runs(args.out, args.out);
  const i64 stride = runs.out_stride();
  with_type(args.kName, args.out.dtype, [&]<class T>(T) {
    T* out = args.out.as<T>();
    const T value = static_cast<T>(args.value);
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

template <class To, class From>
void copy_as(const CopyArgs& args, const Runs& runs) {
  const From* x = args.x.as<const From>();
  To* out = args.out.as<To>();
  const i64 to_stride = runs.out_stride(), from_stride = runs.x_stride();
  runs.for_each([=](i64 out_offset, i64 x_offset, i64 length) {
    To* to = out + out_offset;
    const From* from = x + x_offset;
    if constexpr (std::is_same_v<To, From>) {
      if (to_stride == 1 && from_stride == 1) {
        std::memcpy(to, from, static_cast<std::size_t>(length) * sizeof(To));
        return;
      }
    }
    for (i64 i = 0; i < length; ++i) to[i * to_stride] = static_cast<To>(from[i * from_stride]);
  });
}

void copy(const CopyArgs& args) {
  if (args.out.elements() == 0) return;
  const Runs runs(args.out, args.x);
  if (args.x.dtype == args.out.dtype) {
    with_bits(dtype_size(args.x.dtype), [&]<class T>(T) { copy_as<T, T>(args, runs); });
    return;
  }
  with_type(args.kName, args.x.dtype, [&]<class From>(From) {
    with_type(args.kName, args.out.dtype, [&]<class To>(To) { copy_as<To, From>(args, runs); });
  });
}

}  // namespace

void add_copy_kernels(std::vector<Kernel>& kernels) {
  kernels.push_back(make_kernel<FillArgs>(&fill));
  kernels.push_back(make_kernel<CopyArgs>(&copy));
}

}  // namespace tessera::cpu
