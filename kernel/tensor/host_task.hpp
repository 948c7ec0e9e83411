#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/device.hpp"
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
  /// Overwrites memory with a pattern that is NaN in every floating type, a huge integer, and no
  /// boolean.
  static std::shared_ptr<const HostTask> fill(void* address, i64 bytes);

  void run(Stream& stream) const;
  bool waits_for_ranks() const {
    const auto* host = std::get_if<Host>(&work_);
    return host != nullptr && host->waits == Waits::for_ranks;
  }
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
  struct Fill {
    void* address;
    i64 bytes;
  };
  using Work = std::variant<Launch, Host, Fill>;

  explicit HostTask(Work work) : work_(std::move(work)) {}
  Work work_;
};

}  // namespace tessera
