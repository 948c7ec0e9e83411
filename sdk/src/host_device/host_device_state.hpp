#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sdk/src/host_device/deferred_queue.hpp"
#include "sdk/src/host_device/host_stream.hpp"
#include "sdk/src/host_device/software_graph.hpp"
#include "tessera/device/device_pool.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/device/kernel_table.hpp"
#include "tessera/device/launch_signatures.hpp"
#include "tessera/error.hpp"

namespace tessera {

inline constexpr std::string_view kCopyToHost = "copy_to_host";
inline constexpr std::string_view kCopyFromHost = "copy_from_host";

struct HostDevice::State {
  State(HostDevice& device, std::string device_name, const DeviceArguments& arguments);

  /// Runs what a capture does or refuses; an error spoils the capture, as CUDA's does.
  template <class F>
  auto captured(F f) {
    try {
      return f();
    } catch (const std::exception& error) {
      capture->invalidate(error.what());
      throw;
    }
  }
  /// Throws when a capture is in progress.
  template <class... T>
  void refuse_in_capture(fmt::format_string<T...> what, T&&... values) {
    if (!capture) return;
    captured([&] { capture->refuse(fmt::format(what, std::forward<T>(values)...)); });
  }
  /// Does something that a capture records; outside of one it is simply done.
  template <class F>
  void may_capture(F f) {
    if (capture) {
      captured(f);
    } else {
      f();
    }
  }
  /// Call before work of the rank's thread: the team is there then, and computes as all of a run
  /// does. The error of a thread that has been changed since names what `operation` begins.
  void require_ready(std::string_view operation);
  void record_launch(Stream& stream, const Kernel& kernel, const void* args, Pool& from);
  void launch_host(Stream& stream,
                   std::string_view task_name,
                   std::function<void()> task,
                   HostTask::Waits waits);
  /// The tensor of a copy to or from the host, which is on `device`.
  void require_tensor(const Device& device, std::string_view call, const Tensor& tensor) const;
  /// Call before the host touches a tensor's memory.
  void settle(const Device& device, std::string_view call, const Tensor& tensor, HostWait wait);
  /// Enqueues a copy between a tensor and a host block; `task` does it.
  void copy(std::string_view call,
            Stream& stream,
            const Tensor& tensor,
            const HostBlock& block,
            i64 offset,
            std::function<void()> task);
  /// The point that the host asks for; nullptr for the point before all work.
  std::shared_ptr<HostEvent> asked(const Event& event, std::string_view call);

  std::string name;
  int threads;
  bool team_started = false;
  KernelTable kernels;
  bool captures_follow;
  LaunchSignatures launched;                // where captures follow
  std::unique_ptr<DeferredQueue> deferred;  // empty: work is done when a launch returns
  std::vector<std::unique_ptr<HostStream>> streams;
  std::unique_ptr<Capture> capture;  // while capturing
  u64 captures = 0;
  std::unique_ptr<DevicePool> pool;
  std::shared_ptr<i64> host_bytes = std::make_shared<i64>(0);  // of all host blocks
  i64 host_blocks_made = 0;
};

}  // namespace tessera
