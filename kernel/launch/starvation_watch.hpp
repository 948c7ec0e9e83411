#pragma once
#include <sys/types.h>

#include <string>

namespace tessera {

/// While one lives, a small process of its own waits for the end of this one. Where the system
/// kills this one because memory ran out, that says so on standard error: nobody else can, but for
/// a launcher, which sees how its ranks end. Make it while the process has no other threads. Where
/// the system gives no process, or kills the whole control group at once, nothing is said.
class StarvationWatch {
 public:
  /// `proc`, `groups`: as for out_of_memory_kills().
  explicit StarvationWatch(const std::string& proc = "/proc",
                           const std::string& groups = "/sys/fs/cgroup");
  ~StarvationWatch();
  StarvationWatch(const StarvationWatch&) = delete;
  StarvationWatch& operator=(const StarvationWatch&) = delete;

 private:
  int end_ = -1;  // of two sockets: the system closes it however this process ends
  pid_t watcher_ = -1;
};

}  // namespace tessera
