#include "mkl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "product_size.hpp"
#include "tessera/device/thread_team.hpp"
#include "tessera/error.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu {
namespace {

// Constants of MKL's headers (mkl_cblas.h, mkl_service.h, mkl_types.h), which need not be
// installed.
constexpr int kRowMajor = 101, kAsIs = 111, kTransposed = 112;
constexpr int kGnuThreads = 3, kIntegersOf32Bits = 0;
constexpr int kStrictBits = 0x10000 | 2;  // the processor's own kernels, under any threads
struct Version {
  int major, minor, update;
  char *status, *build, *processor, *platform;
};

/// A handle of libmkl_rt in `folder`, or where the loader looks; nullptr without one.
void* open_library(const std::string& folder) {
  for (const char* name : {"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"}) {
    const std::string path = folder.empty() ? name : folder + "/" + name;
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

template <class Function>
Function* symbol(void* library, const char* name) {
  void* address = dlsym(library, name);
  require(address != nullptr, "MKL has no function {}: {}", name, dlerror());
  return reinterpret_cast<Function*>(address);
}

}  // namespace

bool Mkl::installed() { return open_library({}) != nullptr; }

Mkl::Mkl(const std::string& folder) {
  void* library = open_library(folder);
  if (library == nullptr) {
    fail_config(
        "device.fp32_matmul = \"mkl\": no MKL {}: looked for libmkl_rt.so, .so.2 and .so.3; the "
        "last "
        "try said: {}",
        folder.empty() ? "where the system looks for libraries (device.mkl_folder, LD_LIBRARY_PATH)"
                       : "in " + folder,
        dlerror());
  }
  symbol<int(int)>(library, "MKL_Set_Interface_Layer")(kIntegersOf32Bits);
  const int threads = symbol<int(int)>(library, "MKL_Set_Threading_Layer")(kGnuThreads);
  require(threads == kGnuThreads,
          "MKL runs on threads of another kind (layer {}) already and has to share OpenMP's; "
          "device.fp32_matmul = \"onednn\" does without MKL",
          threads);
  const int strict = symbol<int(int)>(library, "MKL_CBWR_Set")(kStrictBits);
  require(strict == 0,
          "MKL does not promise the same bits under any number of threads here (error {}); "
          "device.fp32_matmul = \"onednn\" does without MKL",
          strict);
  sgemm_ = symbol<Sgemm>(library, "cblas_sgemm");
  set_threads_ = symbol<SetThreads>(library, "MKL_Set_Num_Threads_Local");
  Version version{};
  symbol<void(Version*)>(library, "MKL_Get_Version")(&version);
  name_ = fmt::format("MKL {}.{}.{}", version.major, version.minor, version.update);
}

bool Mkl::fits(const MatmulArgs& args) {
  constexpr i64 kMost = std::numeric_limits<int>::max();
  const auto small = [](const TensorArg& matrix) {
    return std::max({matrix.shape[0], matrix.shape[1], matrix.strides[0]}) <= kMost;
  };
  return small(args.a) && small(args.b) && small(args.out);
}

void Mkl::run(const MatmulArgs& args) const {
  const int planned = threads_for(args);
  const ParallelThreads threads(planned);
  require_team(planned);
  set_threads_(planned);  // goes over MKL_NUM_THREADS and MKL_DOMAIN_NUM_THREADS
  // A matrix of one row may have any stride.
  const auto stride = [](const TensorArg& matrix) {
    return static_cast<int>(std::max(matrix.strides[0], matrix.shape[1]));
  };
  sgemm_(kRowMajor,
         args.transpose_a ? kTransposed : kAsIs,
         args.transpose_b ? kTransposed : kAsIs,
         static_cast<int>(args.out.shape[0]),
         static_cast<int>(args.out.shape[1]),
         static_cast<int>(args.a.shape[args.transpose_a ? 0 : 1]),
         1,
         args.a.as<const float>(),
         stride(args.a),
         args.b.as<const float>(),
         stride(args.b),
         args.accumulate ? 1.0F : 0.0F,
         args.out.as<float>(),
         stride(args.out));
}

}  // namespace tessera::cpu
