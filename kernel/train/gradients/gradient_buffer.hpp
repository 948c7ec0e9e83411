#pragma once
#include <vector>

#include "kernel/model/model_parts.hpp"

namespace tessera {

/// Contiguous memory of all gradients of this rank, in reverse order of declaration, so that
/// buckets fill up from the end of the model while the backward pass runs.
class GradientBuffer {
 public:
  struct Bucket {
    Tensor flat;              ///< [elements]
    std::vector<int> layers;  ///< whose backward adds to it
  };
  /// Lays out and allocates, and points every Parameter::grad into the buffer. A bucket closes when
  /// it holds `bucket_elements` or more.
  GradientBuffer(const std::vector<ModelParts::Entry>& parameters,
                 DType dtype,
                 i64 bucket_elements,
                 Device& device);
  const std::vector<Bucket>& buckets() const { return buckets_; }
  std::vector<std::vector<int>> bucket_layers() const;
  void zero(Context& cx) const;

 private:
  Tensor flat_;
  std::vector<Bucket> buckets_;
};

}  // namespace tessera
