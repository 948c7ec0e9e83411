#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sdk/src/host_device/host_memory.hpp"
#include "tessera/device/device.hpp"
#include "tessera/operation.hpp"

namespace tessera {

/// Work of a host stream that runs later, once or, in a graph, many times.
class HostTask {
 public:
  /// Copies the arguments; `kernel` outlives the task.
  static std::shared_ptr<const HostTask> launch(const Kernel& kernel,
                                                const void* args,
                                                void* workspace);
  /// Does the task wait for other ranks?
  enum class Waits : u8 { no, for_ranks };
  static std::shared_ptr<const HostTask> host(std::string_view name,
                                              std::function<void()> task,
                                              Waits waits);
  /// A copy between a tensor and a host block, which it keeps. Copies to the host say where their
  /// `bytes` land; others pass nullptr.
  static std::shared_ptr<const HostTask> copy(std::string name,
                                              std::function<void()> task,
                                              std::shared_ptr<HostMemory> memory,
                                              std::byte* lands,
                                              i64 bytes);
  /// Overwrites memory with a pattern that is NaN in every floating type, a huge integer, and no
  /// boolean.
  static std::shared_ptr<const HostTask> fill(void* address, i64 bytes);

  /// Throws what the work throws, as an Error that names it.
  void run(Stream& stream) const;
  bool waits_for_ranks() const {
    const auto* host = std::get_if<Host>(&work_);
    return host != nullptr && host->waits == Waits::for_ranks;
  }
  /// For queues: what to keep until the task has run. A host that reads too early should see that:
  /// so memory in which a copy will land is poisoned now, unless queued copies still read it.
  std::shared_ptr<void> enqueue() const;
  /// False for a fill, which no user asked for.
  bool is_launch() const { return !std::holds_alternative<Fill>(work_); }

 private:
  struct Launch {
    const Kernel* kernel;
    std::unique_ptr<std::byte[]> args;
    void* workspace;
  };
  struct Host {
    std::string name;
    std::function<void()> task;
    Waits waits;
  };
  struct Copy {
    std::string name;
    std::function<void()> task;
    std::shared_ptr<HostMemory> memory;
    std::byte* lands;
    i64 bytes;
  };
  struct Fill {
    void* address;
    i64 bytes;
  };
  using Work = std::variant<Launch, Host, Copy, Fill>;

  explicit HostTask(Work work) : work_(std::move(work)) {}
  void work(Stream& stream) const;
  std::string text() const;
  Work work_;
};

/// Does what HostTask::fill does, at once. `address` is that of a value.
void poison_bytes(void* address, i64 bytes);

}  // namespace tessera
