#include "cublaslt.hpp"

#include <fmt/format.h>

#include "tessera/error.hpp"
#include "vendor_library.hpp"

namespace tessera::cuda::lt {
namespace {

Library functions_of(void* library) {
  Library made{};
  const auto find = [library](const char* name, auto& function) {
    find_function(library, "cuBLASLt", name, function);
  };
  find("cublasLtGetVersion", made.version);
  find("cublasLtGetStatusName", made.status_name);
  find("cublasLtCreate", made.create);
  find("cublasLtDestroy", made.destroy);
  find("cublasLtMatmulDescCreate", made.product_create);
  find("cublasLtMatmulDescDestroy", made.product_destroy);
  find("cublasLtMatmulDescSetAttribute", made.product_set);
  find("cublasLtMatrixLayoutCreate", made.layout_create);
  find("cublasLtMatrixLayoutDestroy", made.layout_destroy);
  find("cublasLtMatmulPreferenceCreate", made.preference_create);
  find("cublasLtMatmulPreferenceDestroy", made.preference_destroy);
  find("cublasLtMatmulPreferenceSetAttribute", made.preference_set);
  find("cublasLtMatmulAlgoGetHeuristic", made.choose);
  find("cublasLtMatmul", made.multiply);
  return made;
}

}  // namespace

Library load(const std::vector<std::string>& sonames, const std::vector<std::string>& folders) {
  const std::string advice = fmt::format(
      "cuBLASLt is not found, by which the device \"cuda\" multiplies matrices: put the folder of "
      "{} into LD_LIBRARY_PATH: the toolkit's lib64, or nvidia/cu13/lib or nvidia/cublas/lib "
      "beside an installed PyTorch",
      fmt::join(sonames, " or "));
  return functions_of(open_library(sonames, folders, advice));
}

void Library::check(int status, const char* function) const {
  require(status == kSuccess, "{}: {} ({})", function, status_name(status), status);
}

std::string Library::name() const {
  const std::size_t number = version();
  return fmt::format("cuBLASLt {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace tessera::cuda::lt
