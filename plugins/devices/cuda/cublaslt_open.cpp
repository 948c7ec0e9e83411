#include <dlfcn.h>

#include <filesystem>

#include "cublaslt.hpp"

namespace tessera::cuda::lt {
namespace {

/// Where the CUDA runtime of this process was found. cuBLASLt lies beside it in a toolkit and in
/// Python's packages from 13 on; in those of 12 it has a package of its own.
std::vector<std::string> folders() {
  std::vector<std::string> found;
  Dl_info runtime{};
  if (dladdr(reinterpret_cast<const void*>(&cudaGetDeviceCount), &runtime) != 0) {
    const auto folder = std::filesystem::path(runtime.dli_fname).parent_path();
    found.push_back(folder);
    found.push_back(folder.parent_path().parent_path() / "cublas" / "lib");
  }
  found.emplace_back("/usr/local/cuda/lib64");
  return found;
}

}  // namespace

Library open() { return load({"libcublasLt.so.13", "libcublasLt.so.12"}, folders()); }

}  // namespace tessera::cuda::lt
