#include "vendor_library.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "runtime.hpp"

namespace tessera::cuda {

void* open_library(const std::vector<std::string>& sonames,
                   const std::vector<std::string>& folders,
                   const std::string& advice) {
  std::string tried;
  for (const std::string& soname : sonames) {
    std::vector<std::string> paths{soname};
    for (const std::string& folder : folders) paths.push_back(fmt::format("{}/{}", folder, soname));
    for (const std::string& path : paths) {
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
      tried += fmt::format("\n  {}", dlerror());
    }
  }
  fail_config("{}\nTried, in the system's places first:{}", advice, tried);
}

std::vector<std::string> library_folders(const std::string& package) {
  std::vector<std::string> found;
  Dl_info runtime{};
  if (dladdr(reinterpret_cast<const void*>(&cudaGetDeviceCount), &runtime) != 0) {
    const auto folder = std::filesystem::path(runtime.dli_fname).parent_path();
    found.push_back(folder);
    found.push_back(folder.parent_path().parent_path() / package / "lib");
  }
  found.emplace_back("/usr/local/cuda/lib64");
  return found;
}

}  // namespace tessera::cuda
