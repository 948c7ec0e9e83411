#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime.hpp"

/// The part of cuBLASLt that products use, declared here: a build needs none of the vendor's files,
/// and a program opens the library when it makes a device. D = alpha · op(A) · op(B) + beta · C,
/// column-major.
namespace tessera::cuda::lt {

struct Context;     ///< of a GPU: cublasLtHandle_t
struct Product;     ///< what is computed: cublasLtMatmulDesc_t
struct Layout;      ///< of a matrix: cublasLtMatrixLayout_t
struct Preference;  ///< which algorithms may be chosen: cublasLtMatmulPreference_t

// Enumerations are passed as int, which the library's are.
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kInvalidValue = 7,
  kExecutionFailed = 13,
  kNotSupported = 15,
};
enum DataType : int { kFp32 = 0, kFp64 = 1, kFp16 = 2, kBf16 = 14 };
enum ComputeType : int { kCompute32 = 68, kCompute64 = 70, kCompute32ByTf32 = 77 };
enum Transpose : int { kAsIs = 0, kTransposed = 1 };
enum Epilogue : int { kPlain = 1, kBias = 4 };
/// A mask: how blocks that share an inner dimension may add their sums. By compute type: from the
/// workspace, in full width and a fixed order. Not sharing it is always allowed.
enum Reduction : int { kReductionByComputeType = 2 };

enum ProductAttribute : int {
  kTransposeA = 3,   // std::int32_t
  kTransposeB = 4,   // std::int32_t
  kEpilogue = 7,     // std::uint32_t
  kBiasAddress = 8,  // const void*
};
enum PreferenceAttribute : int {
  kMostWorkspace = 1,  // std::uint64_t, bytes
  kReductions = 3,     // std::uint32_t, a mask
  kAlignmentA = 5,     // std::uint32_t, bytes, as the three after it
  kAlignmentB = 6,
  kAlignmentC = 7,
  kAlignmentD = 8,
};

/// How a product is computed. Plain data of the library's.
struct Algorithm {
  std::uint64_t data[8];
};
struct Choice {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

/// The library's functions.
struct Library {
  std::size_t (*version)();
  const char* (*status_name)(int status);
  int (*create)(Context** context);
  int (*destroy)(Context* context);
  int (*product_create)(Product** product, int compute_type, int scale_type);
  int (*product_destroy)(Product* product);
  int (*product_set)(Product* product, int attribute, const void* value, std::size_t bytes);
  int (*layout_create)(Layout** layout,
                       int type,
                       std::uint64_t rows,
                       std::uint64_t columns,
                       std::int64_t leading_dimension);
  int (*layout_destroy)(Layout* layout);
  int (*preference_create)(Preference** preference);
  int (*preference_destroy)(Preference* preference);
  int (*preference_set)(Preference* preference,
                        int attribute,
                        const void* value,
                        std::size_t bytes);
  int (*choose)(Context* context,
                Product* product,
                Layout* a,
                Layout* b,
                Layout* c,
                Layout* d,
                Preference* preference,
                int most,
                Choice* choices,
                int* found);
  int (*multiply)(Context* context,
                  Product* product,
                  const void* alpha,
                  const void* a,
                  Layout* a_layout,
                  const void* b,
                  Layout* b_layout,
                  const void* beta,
                  const void* c,
                  Layout* c_layout,
                  void* d,
                  Layout* d_layout,
                  const Algorithm* algorithm,
                  void* workspace,
                  std::size_t workspace_bytes,
                  cudaStream_t stream);

  /// Throws Error with the names of the function and of the status, unless that is kSuccess.
  void check(int status, const char* function) const;
  /// "cuBLASLt 13.1.0"
  std::string name() const;
};

/// Opens the first of `sonames` that the system's loader finds, or that is in one of `folders`. The
/// library stays open until the process ends. Throws ConfigError, whose first line says what helps,
/// and the others what was tried.
Library load(const std::vector<std::string>& sonames, const std::vector<std::string>& folders);

/// The library of this plugin: the vendor's, or for the emulator that of tests/cuda_emulated.
Library open();

}  // namespace tessera::cuda::lt
