// Not a part of the emulated plugin.
#include "library.hpp"
#include "vendor_library.hpp"

namespace tessera::nccl {

const Library& open_nccl() {
  static const Library kLibrary = functions_of(cuda::open_library(
      {"libnccl.so.2"},
      cuda::library_folders("nccl"),
      "NCCL is not found, by which the communicator \"nccl\" joins GPUs: put the folder of "
      "libnccl.so.2 into LD_LIBRARY_PATH: where your system's package libnccl2 has it, or "
      "nvidia/nccl/lib beside an installed PyTorch"));
  return kLibrary;
}

}  // namespace tessera::nccl
