#pragma once
#include <string>
#include <string_view>

namespace tessera::cuda {

/// Versions of CUDA, as its runtime writes them: 13000 is 13.0.
struct Versions {
  int driver = 0;  ///< the latest that the driver serves; 0: there is none
  int runtime = 0;
};
Versions installed_versions();
/// "13.0"
std::string version_text(int version);

/// "driver 580.65.06 for CUDA 13.0, runtime 13.0": drivers of several releases serve one version of
/// CUDA, and compile and compute differently. Without the release where the system does not tell.
std::string installed_text();

/// The release that NVIDIA's kernel module tells in its file: the first word of numbers with dots
/// between. Empty where there is none.
std::string release_in(std::string_view file);

/// That file, /proc/driver/nvidia/version; empty where there is none, as on WSL. For the emulator,
/// that of tests/cuda_emulated.
std::string driver_file();

}  // namespace tessera::cuda
