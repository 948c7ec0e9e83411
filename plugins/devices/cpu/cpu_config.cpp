#include "cpu_config.hpp"

#include <cstdlib>
#include <utility>

#include "tessera/error.hpp"

namespace tessera::cpu {

void CpuConfig::describe(Schema<CpuConfig>& s) {
  s.field("isa",
          &CpuConfig::isa,
          "instruction set of the built-in kernels; \"auto\": the best that the processor has")
      .one_of({"auto", "baseline", "avx2", "avx512", "avx512_bf16", "amx"});
  s.field("fp32_matmul",
          &CpuConfig::fp32_matmul,
          "who multiplies matrices of fp32; \"tiles\" are built in. \"auto\": with AVX-512 MKL on "
          "Intel's processors where the system has it, else oneDNN, else tiles")
      .one_of({"auto", "tiles", "onednn", "mkl"});
  s.field("bf16_matmul",
          &CpuConfig::bf16_matmul,
          "who multiplies matrices of bf16; \"onednn\" needs AVX-512")
      .one_of({"tiles", "onednn"});
  s.field("mkl_folder",
          &CpuConfig::mkl_folder,
          "where libmkl_rt is, with fp32_matmul = \"mkl\"; empty: where the system looks for "
          "libraries")
      .is_path();
  s.field("prepare_fp32",
          &CpuConfig::prepare_fp32,
          "prepare weights of fp32 too (precision.prepare_weights), where oneDNN multiplies them; "
          "it wins nothing");
}

void refuse_variables() {
  constexpr std::pair<const char*, const char*> kMoved[] = {
      {"TESSERA_CPU_ISA", "device.isa"},
      {"TESSERA_CPU_FP32", "device.fp32_matmul (and device.mkl_folder)"},
      {"TESSERA_CPU_BF16", "device.bf16_matmul"},
      {"TESSERA_CPU_PREPARE_FP32", "device.prepare_fp32"}};
  for (const auto& [variable, key] : kMoved) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    fail_config(
        "{} is set in the environment, and nothing reads it: unset it, and set {} in the "
        "configuration",
        variable,
        key);
  }
}

}  // namespace tessera::cpu
