#include "cublaslt.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "tessera/error.hpp"

namespace tessera::cuda::lt {
namespace {

template <class Function>
void find(void* library, const char* name, Function*& function) {
  void* address = dlsym(library, name);
  require(address != nullptr, "cuBLASLt has no function {}: {}", name, dlerror());
  function = reinterpret_cast<Function*>(address);
}

Library functions_of(void* library) {
  Library made{};
  find(library, "cublasLtGetVersion", made.version);
  find(library, "cublasLtGetStatusName", made.status_name);
  find(library, "cublasLtCreate", made.create);
  find(library, "cublasLtDestroy", made.destroy);
  find(library, "cublasLtMatmulDescCreate", made.product_create);
  find(library, "cublasLtMatmulDescDestroy", made.product_destroy);
  find(library, "cublasLtMatmulDescSetAttribute", made.product_set);
  find(library, "cublasLtMatrixLayoutCreate", made.layout_create);
  find(library, "cublasLtMatrixLayoutDestroy", made.layout_destroy);
  find(library, "cublasLtMatmulPreferenceCreate", made.preference_create);
  find(library, "cublasLtMatmulPreferenceDestroy", made.preference_destroy);
  find(library, "cublasLtMatmulPreferenceSetAttribute", made.preference_set);
  find(library, "cublasLtMatmulAlgoGetHeuristic", made.choose);
  find(library, "cublasLtMatmul", made.multiply);
  return made;
}

}  // namespace

Library load(const std::vector<std::string>& sonames, const std::vector<std::string>& folders) {
  std::string tried;
  for (const std::string& soname : sonames) {
    std::vector<std::string> paths{soname};
    for (const std::string& folder : folders) paths.push_back(fmt::format("{}/{}", folder, soname));
    for (const std::string& path : paths) {
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        return functions_of(library);
      }
      tried += fmt::format("\n  {}", dlerror());
    }
  }
  fail_config(
      "cuBLASLt is not found, by which the device \"cuda\" multiplies matrices: put the folder of "
      "{} into LD_LIBRARY_PATH: the toolkit's lib64, or nvidia/cu13/lib or nvidia/cublas/lib "
      "beside an installed PyTorch\nTried, in the system's places first:{}",
      fmt::join(sonames, " or "),
      tried);
}

void Library::check(int status, const char* function) const {
  require(status == kSuccess, "{}: {} ({})", function, status_name(status), status);
}

std::string Library::name() const {
  const std::size_t number = version();
  return fmt::format("cuBLASLt {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace tessera::cuda::lt
