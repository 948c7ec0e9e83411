// Not a part of the emulated plugin.
#include "library.hpp"
#include "vendor_library.hpp"

namespace tessera::nccl {

const Library& open_nccl() {
  static const Library kLibrary = load({"libnccl.so.2"}, cuda::library_folders("nccl"));
  return kLibrary;
}

}  // namespace tessera::nccl
