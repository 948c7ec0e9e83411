#pragma once
#include <string>
#include <string_view>

#include "tessera/device/core_ops.hpp"

namespace tessera::cpu {

/// Matrix products of fp32 by Intel's MKL, a library that is loaded when this is made and stays
/// loaded until the process ends. Its threads are those of OpenMP that parallel_for runs on, and
/// its bits do not depend on their number ("strict" reproducibility).
class Mkl {
 public:
  /// Loads libmkl_rt from `folder`, or from where the system's loader looks if that is empty.
  /// Throws Error naming what is missing.
  explicit Mkl(const std::string& folder);

  /// Whether the system's loader finds the library.
  static bool installed();

  /// Returns "MKL 2026.2", say.
  std::string_view name() const { return name_; }
  /// Whether sizes and strides fit MKL's integers of 32 bits.
  static bool fits(const MatmulArgs& args);
  /// The product without the bias.
  void run(const MatmulArgs& args) const;

 private:
  using Sgemm = void(int,
                     int,
                     int,
                     int,
                     int,
                     int,
                     float,
                     const float*,
                     int,
                     const float*,
                     int,
                     float,
                     float*,
                     int);
  using SetThreads = int(int);
  Sgemm* sgemm_;
  SetThreads* set_threads_;  ///< of the calling thread
  std::string name_;
};

}  // namespace tessera::cpu
