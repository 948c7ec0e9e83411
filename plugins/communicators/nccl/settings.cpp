#include "settings.hpp"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "library.hpp"
#include "tessera/base/collective.hpp"
#include "tessera/error.hpp"
#include "tessera/io/size_text.hpp"
#include "tessera/log.hpp"

namespace tessera::nccl {

namespace {

std::string_view setting(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::string_view() : text;
}

// NVIDIA/nccl issue 750.
void check_launches() {
  if (setting("CUDA_LAUNCH_BLOCKING") != "1") return;
  fail_config(
      "CUDA_LAUNCH_BLOCKING=1 waits for the end of each kernel, and one of communicator \"{}\" "
      "ends "
      "when all ranks have launched it: they would wait for each other for ever. Unset it; "
      "device.debug = true finds a kernel that fails",
      kName);
}

// Streams that share a connection run what they hold in launch order: a collective that waits for
// its peers then stands before what these wait for. Megatron-LM wants 1 for tensor parallelism.
void check_connections() {
  constexpr const char* kConnections = "CUDA_DEVICE_MAX_CONNECTIONS";
  const std::string_view text = setting(kConnections);
  int connections = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), connections);
  if (text.empty() || error != std::errc() || connections >= kDeviceStreams) return;
  fail_config(
      "{}={} lets the {} streams of a rank share {} queue{} of the GPU: a collective of "
      "communicator \"{}\" that waits for its peers would hold up what they wait for. Unset it, or "
      "set {} or more; unlike Megatron-LM, Tessera orders its launches by events",
      kConnections,
      text,
      kDeviceStreams,
      text,
      connections == 1 ? "" : "s",
      kName,
      kDeviceStreams);
}

void warn_of_shared_memory() {
  struct statvfs found {};
  if (statvfs("/dev/shm", &found) != 0) return;
  const auto bytes = static_cast<i64>(found.f_blocks) * static_cast<i64>(found.f_frsize);
  const std::string warning = shared_memory_warning(bytes);
  if (!warning.empty()) log_warning("{}", warning);
}

}  // namespace

// NCCL 2.28 compares hosts and bus ids; from 2.30 on a setting allows it.
void let_ranks_share(i64 rank) {
  setenv("NCCL_HOSTID", fmt::format("tessera-rank-{}", rank).c_str(), 0);
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
}

std::string shared_memory_warning(i64 bytes) {
  constexpr i64 kEnough = i64{1} << 30;
  if (bytes >= kEnough) return {};
  return fmt::format(
      "/dev/shm has {}, and NCCL takes some for each pair of GPUs of a host: where it fails with a "
      "system error, give the container 1 GiB or more (docker run --shm-size=1g)",
      size_text(static_cast<double>(bytes)));
}

void check_settings() {
  check_launches();
  check_connections();
  static const bool kWarned = (warn_of_shared_memory(), true);
  (void)kWarned;
}

}  // namespace tessera::nccl
