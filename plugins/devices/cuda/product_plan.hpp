#pragma once
#include <compare>
#include <memory>

#include "cublaslt.hpp"
#include "tessera/ops/matmul.hpp"

namespace tessera::cuda {

/// A workspace of this size is all that a product may take. cuBLASLt's kernels for Hopper ask for
/// it (PyTorch gives them as much); smaller products use little of it.
inline constexpr i64 kProductWorkspace = i64{32} << 20;

/// What the choice of an algorithm depends on.
struct ProductKey {
  DType data = DType::fp32, out = DType::fp32;
  bool transpose_a = false, transpose_b = false, accumulate = false, bias = false;
  i64 m = 0, n = 0, k = 0;
  i64 stride_a = 0, stride_b = 0, stride_out = 0;
  /// Bytes of which addresses are multiples, at most 16: no kernel loads more at a time, so that
  /// tensors of one shape have one plan wherever they lie.
  int align_a = 16, align_b = 16, align_out = 16, align_bias = 16;

  explicit ProductKey(const MatmulArgs& args);
  auto operator<=>(const ProductKey&) const = default;
  /// "matmul of bf16 [8, 4] · [4, 6]ᵀ + bias to bf16"
  std::string text() const;
};

/// Destroys what the library made.
struct LtDestroy {
  const lt::Library* library = nullptr;
  void operator()(lt::Context* context) const { library->destroy(context); }
  void operator()(lt::Product* product) const { library->product_destroy(product); }
  void operator()(lt::Layout* layout) const { library->layout_destroy(layout); }
  void operator()(lt::Preference* preference) const { library->preference_destroy(preference); }
};
template <class T>
using LtOwned = std::unique_ptr<T, LtDestroy>;

/// A product as cuBLASLt computes it.
class ProductPlan {
 public:
  /// Chooses the algorithm, or has none that rounds once: see found(). `tf32`: products of fp32 in
  /// TF32.
  ProductPlan(const lt::Library& library, lt::Context* context, const ProductKey& key, bool tf32);

  /// Whether the library has an algorithm, and what it said if it has none.
  bool found() const { return status_ == lt::kSuccess; }
  int status() const { return status_; }
  void run(const MatmulArgs& args, void* workspace, cudaStream_t stream) const;

 private:
  void choose(const ProductKey& key);

  const lt::Library* library_;
  lt::Context* context_;
  LtOwned<lt::Product> product_;
  LtOwned<lt::Layout> a_, b_, out_;  // of the library's A and B, which are b and a
  lt::Algorithm algorithm_{};
  int status_ = lt::kNotSupported;
  bool doubles_, accumulate_;
};

}  // namespace tessera::cuda
