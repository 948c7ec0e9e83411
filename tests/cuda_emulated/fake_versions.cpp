// What the kernel module of the emulated driver tells of itself.
#include <cstdlib>

#include "versions.hpp"

namespace tessera::cuda {

std::string driver_file() {
  const char* release = std::getenv("TESSERA_EMULATED_RELEASE");
  if (release == nullptr) return {};
  return "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " + std::string(release) +
         "  Release Build  (root@host)  Sun Jul 27 06:54:38 UTC 2025\n"
         "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n";
}

}  // namespace tessera::cuda
