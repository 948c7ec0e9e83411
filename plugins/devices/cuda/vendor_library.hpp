#pragma once
#include <dlfcn.h>

#include <string>
#include <vector>

#include "tessera/error.hpp"

/// Libraries of the vendor that a program opens when it needs them: a build needs none of their
/// files, and a machine without a GPU none of them.
namespace tessera::cuda {

/// Opens the first of `sonames` that the system's loader finds, or that is in one of `folders`. It
/// stays open until the process ends. Throws ConfigError: `advice`, then what was tried.
void* open_library(const std::vector<std::string>& sonames,
                   const std::vector<std::string>& folders,
                   const std::string& advice);

/// Where the vendor's libraries may lie: beside the CUDA runtime of this process, in the folder of
/// a Python package beside the runtime's ("cublas"), and in the toolkit.
std::vector<std::string> library_folders(const std::string& package);

/// Sets `function` to the library's of this name; throws Error naming both.
template <class Function>
void find_function(void* library, const char* of, const char* name, Function*& function) {
  void* address = dlsym(library, name);
  require(address != nullptr, "{} has no function {}: {}", of, name, dlerror());
  function = reinterpret_cast<Function*>(address);
}

}  // namespace tessera::cuda
