#include "library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "tessera/error.hpp"
#include "vendor_library.hpp"

namespace tessera::nccl {

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string Library::name() const {
  int number = 0;
  version(&number);
  return fmt::format("NCCL {}", version_text(number));
}

namespace {

Library functions_of(void* library) {
  Library made{};
  const auto find = [library](const char* name, auto& function) {
    cuda::find_function(library, "NCCL", name, function);
  };
  find("ncclGetVersion", made.version);
  require_version(made);
  find("ncclGetErrorString", made.error_text);
  find("ncclGetLastError", made.last_error);
  find("ncclGetUniqueId", made.unique_id);
  find("ncclCommInitRankConfig", made.init);
  find("ncclCommFinalize", made.finalize);
  find("ncclCommDestroy", made.destroy);
  find("ncclCommAbort", made.abort);
  find("ncclCommGetAsyncError", made.async_error);
  find("ncclGroupStart", made.group_start);
  find("ncclGroupEnd", made.group_end);
  find("ncclAllReduce", made.all_reduce);
  find("ncclBroadcast", made.broadcast);
  find("ncclAllGather", made.all_gather);
  find("ncclReduceScatter", made.reduce_scatter);
  find("ncclSend", made.send);
  find("ncclRecv", made.receive);
  return made;
}

}  // namespace

Library load(const std::vector<std::string>& sonames, const std::vector<std::string>& folders) {
  return functions_of(cuda::open_library(
      sonames,
      folders,
      fmt::format(
          "NCCL is not found, by which the communicator \"nccl\" joins GPUs: put the folder "
          "of {} into LD_LIBRARY_PATH: where your system's package libnccl2 has it, or "
          "nvidia/nccl/lib beside an installed PyTorch",
          fmt::join(sonames, " or "))));
}

void require_version(const Library& library) {
  constexpr int kLeast = 22600;  // the first that orders several communicators (world.cpp)
  int version = 0;
  library.version(&version);
  if (version >= kLeast) return;
  Dl_info file{};
  (void)dladdr(reinterpret_cast<const void*>(library.version), &file);
  fail_config(
      "communicator \"{}\" needs NCCL {} or later, and {} is {}: install a newer libnccl2, or put "
      "the "
      "folder of one into LD_LIBRARY_PATH",
      kName,
      version_text(kLeast),
      file.dli_fname == nullptr ? "what it finds" : file.dli_fname,
      version_text(version));
}

}  // namespace tessera::nccl
