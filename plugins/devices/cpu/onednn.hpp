#pragma once
#include <memory>

#include "tessera/device/core_ops.hpp"

namespace tessera::cpu {

/// Matrix products of fp32 and bf16 by oneDNN. A primitive is made once for each shape and kept; a
/// launch gives it addresses only. It takes its threads from OpenMP, the same that parallel_for
/// runs on. Used by its rank's thread only.
class OneDnn {
 public:
  /// Throws Error where other code of the process has used oneDNN with hints of its own.
  OneDnn();
  ~OneDnn();

  /// Whether oneDNN multiplies with AVX-512: the processor has it, the system lets it be used, and
  /// ONEDNN_MAX_CPU_ISA does not forbid it.
  static bool has_avx512();

  /// Throw Error where oneDNN has no primitive for the shape.
  LaunchRequirements prepare(const MatmulArgs& args);
  LaunchRequirements prepare(const PackWeightArgs& args);
  void run(const MatmulArgs& args, void* workspace);
  void run(const PackWeightArgs& args);

 private:
  class Kept;
  std::unique_ptr<Kept> kept_;
};

}  // namespace tessera::cpu
