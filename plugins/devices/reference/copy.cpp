#include "elements.hpp"
#include "kernels.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::reference {
namespace {

/// Where the element of this row-major number lies, in elements from the tensor's address.
i64 offset_of(const TensorArg& tensor, i64 number) {
  i64 offset = 0;
  for (int d = tensor.rank - 1; d >= 0; --d) {
    offset += number % tensor.shape[d] * tensor.strides[d];
    number /= tensor.shape[d];
  }
  return offset;
}

template <class To, class From>
To convert(From value) {
  constexpr bool kIntegers = std::is_integral_v<To> && std::is_integral_v<From>;
  if constexpr (std::is_same_v<To, From> || kIntegers) {
    return static_cast<To>(value);
  } else {
    return static_cast<To>(static_cast<double>(value));
  }
}

}  // namespace

template <>
void run(const FillArgs& args) {
  with_any(args.kName, args.out.dtype, [&]<class T>(T) {
    T* out = args.out.as<T>();
    parallel_for(args.out.elements(), kGrain, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) out[offset_of(args.out, i)] = convert<T>(args.value);
    });
  });
}

template <>
void run(const CopyArgs& args) {
  with_any(args.kName, args.x.dtype, [&]<class From>(From) {
    with_any(args.kName, args.out.dtype, [&]<class To>(To) {
      const From* x = args.x.as<const From>();
      To* out = args.out.as<To>();
      parallel_for(args.x.elements(), kGrain, [&](i64 begin, i64 end) {
        for (i64 i = begin; i < end; ++i) {
          out[offset_of(args.out, i)] = convert<To>(x[offset_of(args.x, i)]);
        }
      });
    });
  });
}

}  // namespace tessera::reference
