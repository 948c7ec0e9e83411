#include "product_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "tessera/error.hpp"

namespace tessera::cuda {
namespace {

constexpr int kMostAlignment = 16;

int alignment(const TensorArg& tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.address);
  int bytes = kMostAlignment;
  while (address % static_cast<unsigned>(bytes) != 0) bytes /= 2;
  return bytes;
}

/// Elements from row to row. A matrix of one row may have any.
i64 row_stride(const TensorArg& matrix) {
  return matrix.shape[0] == 1 ? matrix.shape[1] : matrix.strides[0];
}

/// Whether cuBLASLt might round a product before it adds the bias, and then the sum. Its kernels
/// for 16-bit values of which no load can take two do so (13.1 on an H200).
bool rounds_before_bias(const ProductKey& key) {
  const auto alone = [](i64 stride, int align) { return stride % 2 != 0 || align < 4; };
  return key.bias && dtype_size(key.data) == 2 && dtype_size(key.out) == 2 &&
         (alone(key.stride_a, key.align_a) || alone(key.stride_b, key.align_b) ||
          alone(key.stride_out, key.align_out));
}

int type_of(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return lt::kFp64;
    case DType::fp32:
      return lt::kFp32;
    case DType::fp16:
      return lt::kFp16;
    case DType::bf16:
      return lt::kBf16;
    default:
      fail("matmul has no values of {}", dtype_name(dtype));
  }
}

template <class Value>
void set(const lt::Library& library, lt::Product* product, int attribute, const Value& value) {
  library.check(library.product_set(product, attribute, &value, sizeof value),
                "cublasLtMatmulDescSetAttribute");
}
template <class Value>
void set(const lt::Library& library, lt::Preference* preference, int attribute, Value value) {
  library.check(library.preference_set(preference, attribute, &value, sizeof value),
                "cublasLtMatmulPreferenceSetAttribute");
}

/// A row-major matrix, which the library sees as its transposed.
LtOwned<lt::Layout> layout(
    const lt::Library& library, DType dtype, i64 rows, i64 columns, i64 stride) {
  lt::Layout* made = nullptr;
  library.check(library.layout_create(&made,
                                      type_of(dtype),
                                      static_cast<std::uint64_t>(columns),
                                      static_cast<std::uint64_t>(rows),
                                      stride),
                "cublasLtMatrixLayoutCreate");
  return {made, LtDestroy{&library}};
}

}  // namespace

ProductKey::ProductKey(const MatmulArgs& args)
    : data(args.a.dtype),
      out(args.out.dtype),
      transpose_a(args.transpose_a),
      transpose_b(args.transpose_b),
      accumulate(args.accumulate),
      bias(static_cast<bool>(args.bias)),
      m(args.out.shape[0]),
      n(args.out.shape[1]),
      k(args.a.shape[args.transpose_a ? 0 : 1]),
      stride_a(row_stride(args.a)),
      stride_b(row_stride(args.b)),
      stride_out(row_stride(args.out)),
      align_a(alignment(args.a)),
      align_b(alignment(args.b)),
      align_out(alignment(args.out)),
      align_bias(alignment(args.bias)) {}

std::string ProductKey::text() const {
  return fmt::format(
      "[{}, {}]{} · [{}, {}]{}{} of {}{} to {}, rows {}, {} and {} apart, addresses "
      "multiples of {}, {} and {} bytes",
      transpose_a ? k : m,
      transpose_a ? m : k,
      transpose_a ? "ᵀ" : "",
      transpose_b ? n : k,
      transpose_b ? k : n,
      transpose_b ? "ᵀ" : "",
      bias ? " + bias" : "",
      dtype_name(data),
      accumulate ? ", added" : "",
      dtype_name(out),
      stride_a,
      stride_b,
      stride_out,
      align_a,
      align_b,
      align_out);
}

// Rows that follow each other are columns to the library: what it computes is
// outᵀ [n, m] = op(b)ᵀ · op(a)ᵀ, in place of which each matrix is given as it lies.
ProductPlan::ProductPlan(const lt::Library& library,
                         lt::Context* context,
                         const ProductKey& key,
                         bool tf32)
    : library_(&library),
      context_(context),
      doubles_(key.data == DType::fp64),
      accumulate_(key.accumulate) {
  if (rounds_before_bias(key)) return;
  const bool fast = tf32 && key.data == DType::fp32;
  lt::Product* product = nullptr;
  library.check(library.product_create(
                    &product,
                    doubles_ ? lt::kCompute64 : (fast ? lt::kCompute32ByTf32 : lt::kCompute32),
                    doubles_ ? lt::kFp64 : lt::kFp32),
                "cublasLtMatmulDescCreate");
  product_ = {product, LtDestroy{&library}};
  set(library, product, lt::kTransposeA, std::int32_t{key.transpose_b});
  set(library, product, lt::kTransposeB, std::int32_t{key.transpose_a});
  if (key.bias) {
    set(library, product, lt::kEpilogue, std::uint32_t{lt::kBias});
    // Only its alignment counts here. The address is set at each launch.
    set(library, product, lt::kBiasAddress, static_cast<std::uintptr_t>(key.align_bias));
  }
  a_ = layout(library,
              key.data,
              key.transpose_b ? key.n : key.k,
              key.transpose_b ? key.k : key.n,
              key.stride_b);
  b_ = layout(library,
              key.data,
              key.transpose_a ? key.k : key.m,
              key.transpose_a ? key.m : key.k,
              key.stride_a);
  out_ = layout(library, key.out, key.m, key.n, key.stride_out);
  choose(key);
}

void ProductPlan::choose(const ProductKey& key) {
  lt::Preference* made = nullptr;
  library_->check(library_->preference_create(&made), "cublasLtMatmulPreferenceCreate");
  const LtOwned<lt::Preference> preference(made, LtDestroy{library_});
  set(*library_, made, lt::kMostWorkspace, static_cast<std::uint64_t>(kProductWorkspace));
  // Not in place: what comes first would be added first, rounded to the output's dtype.
  set(*library_, made, lt::kReductions, std::uint32_t{lt::kReductionByComputeType});
  const auto align = [](int bytes) { return static_cast<std::uint32_t>(bytes); };
  set(*library_, made, lt::kAlignmentA, align(key.align_b));
  set(*library_, made, lt::kAlignmentB, align(key.align_a));
  set(*library_, made, lt::kAlignmentC, align(key.align_out));
  set(*library_, made, lt::kAlignmentD, align(key.align_out));
  lt::Choice choice{};
  int found = 0;
  status_ = library_->choose(context_,
                             product_.get(),
                             a_.get(),
                             b_.get(),
                             out_.get(),
                             out_.get(),
                             made,
                             1,
                             &choice,
                             &found);
  if (status_ == lt::kSuccess) status_ = found > 0 ? choice.status : lt::kNotSupported;
  algorithm_ = choice.algorithm;
}

void ProductPlan::run(const MatmulArgs& args, void* workspace, cudaStream_t stream) const {
  if (args.bias) {
    set(*library_, product_.get(), lt::kBiasAddress, static_cast<const void*>(args.bias.address));
  }
  const double doubles[] = {1, accumulate_ ? 1.0 : 0.0};
  const float floats[] = {1, accumulate_ ? 1.0F : 0.0F};
  const auto factor = [&](int i) -> const void* {
    return doubles_ ? static_cast<const void*>(doubles + i) : floats + i;
  };
  library_->check(library_->multiply(context_,
                                     product_.get(),
                                     factor(0),
                                     args.b.address,
                                     a_.get(),
                                     args.a.address,
                                     b_.get(),
                                     factor(1),
                                     args.out.address,
                                     out_.get(),
                                     args.out.address,
                                     out_.get(),
                                     &algorithm_,
                                     workspace,
                                     static_cast<std::size_t>(kProductWorkspace),
                                     stream),
                  "cublasLtMatmul");
}

}  // namespace tessera::cuda
