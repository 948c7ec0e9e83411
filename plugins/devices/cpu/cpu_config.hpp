#pragma once
#include <string>

#include "tessera/schema.hpp"

namespace tessera::cpu {

/// The keys of [device] that choose kernels, and so last bits.
struct CpuConfig {
  std::string isa = "auto";
  std::string fp32_matmul = "auto", bf16_matmul = "tiles";
  std::string mkl_folder;  ///< empty: where the system's loader looks
  bool prepare_fp32 = false;
  static void describe(Schema<CpuConfig>& s);
};

/// Throws ConfigError where the environment has a variable that chose what a key chooses now.
void refuse_variables();

}  // namespace tessera::cpu
