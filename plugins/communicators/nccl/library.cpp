#include "library.hpp"

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

void require_version(const Library& library) {
  constexpr int kLeast = 21700;  // the first that reads our Config
  int version = 0;
  library.version(&version);
  if (version >= kLeast) return;
  fail_config("communicator \"{}\" needs NCCL {} or later, and finds {}",
              kName,
              version_text(kLeast),
              version_text(version));
}

}  // namespace tessera::nccl
