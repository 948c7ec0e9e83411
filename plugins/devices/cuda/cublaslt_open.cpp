#include "cublaslt.hpp"
#include "vendor_library.hpp"

namespace tessera::cuda::lt {

// cuBLASLt lies beside the runtime in a toolkit and in Python's packages from 13 on; in those of 12
// it has a package of its own.
Library open() {
  return load({"libcublasLt.so.13", "libcublasLt.so.12"}, library_folders("cublas"));
}

}  // namespace tessera::cuda::lt
