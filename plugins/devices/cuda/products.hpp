#pragma once
#include <memory>
#include <string>

#include "cublaslt.hpp"
#include "tessera/operation.hpp"
#include "tessera/ops/matmul.hpp"

namespace tessera::cuda {

/// How products of fp32 are computed: in fp32, or in TF32 of which a factor keeps 10 bits of its
/// mantissa.
enum class Fp32Products { fp32, tf32 };

/// The matrix products of one device, by cuBLASLt. How one is computed (its plan) depends on
/// dtypes, sizes, strides, and whether addresses are multiples of 16 bytes, so it is the same in
/// each run, and so are its bits; plans are made where `prepare` first meets them, and kept.
class Products {
 public:
  /// The products of a planned device, which has no GPU: prepare only.
  Products();
  /// The products of the GPU that is current.
  Products(const lt::Library& library, Fp32Products fp32);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// What decides bits: "cuBLASLt 13.1.0; products of fp32 in TF32", and what in the environment
  /// changes the library's choice.
  std::string hardware() const;

  LaunchRequirements prepare(const MatmulArgs& args);
  void launch(const MatmulArgs& args, void* workspace, cudaStream_t stream);

 private:
  class Plans;
  std::unique_ptr<Plans> plans_;  // none: planned
};

Kernel make_matmul_kernel(const std::shared_ptr<Products>& products);
Kernel make_linear_weight_kernel(const std::shared_ptr<Products>& products);

}  // namespace tessera::cuda
