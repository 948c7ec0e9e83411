#pragma once
#include <span>
#include <vector>

#include "tessera/device.hpp"
#include "tessera/parameter.hpp"

namespace tessera {

/// Every parameter begins at a multiple of so many elements, as in Megatron-Core's buffers.
inline constexpr i64 kParameterAlignment = 64;

/// Parameters whose gradients are summed alike, side by side in memory.
struct ParameterBucket {
  struct Member {
    Parameter* parameter = nullptr;
    i64 begin = 0;  ///< from the start of the bucket
  };
  std::vector<Member> members;  ///< by begin, which is in reverse order of declaration
  i64 begin = 0;                ///< from the start of the rank's memory
  i64 elements = 0;             ///< the gaps of alignment included
};

/// The parameters of one rank in contiguous memory, bucket after bucket. Each form (main, compute,
/// gradient) is one tensor, and a parameter lies at the same place in all of them.
///
/// Memory is in reverse order of declaration, so buckets fill up from the end of the model while
/// the backward pass runs. A bucket holds parameters of one kind: expert or not, the same axes of
/// partial gradients; a shared parameter (tied embeddings) has a bucket of its own, as
/// Megatron-Core gives it.
class TESSERA_API ParameterMemory {
 public:
  ParameterMemory() = default;
  /// Lays out without allocating. `parameters`, in model order, outlive it. A bucket closes when
  /// it holds `bucket_elements` or more.
  ParameterMemory(std::span<Parameter* const> parameters, i64 bucket_elements);

  /// Allocates main and compute values, one memory where the dtypes agree, and points the
  /// parameters' forms into it. Values are undefined.
  void allocate_values(Device& device, DType main, DType compute);
  /// The same for gradients, in main's dtype; after the values.
  void allocate_gradients(Device& device);

  const std::vector<ParameterBucket>& buckets() const { return buckets_; }
  i64 elements() const { return elements_; }
  const Tensor& main() const { return main_; }  ///< [elements()]
  /// [elements()]; undefined when main's memory serves.
  const Tensor& compute() const { return compute_; }
  const Tensor& gradients() const { return gradients_; }  ///< [elements()]

 private:
  /// Points `form` of every parameter into `flat`.
  void place(const Tensor& flat, Tensor Parameter::*form) const;

  std::vector<ParameterBucket> buckets_;
  i64 elements_ = 0;
  Tensor main_, compute_, gradients_;
};

}  // namespace tessera
