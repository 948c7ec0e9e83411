#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/device/device.hpp"
#include "tessera/operation.hpp"

namespace tessera {

/// A device's kernels by operation. The table outlives launches and graphs that use them.
class TESSERA_API KernelTable {
 public:
  /// Adds kernels of one origin; those of earlier origins win. Throws Error when one is incomplete,
  /// ConfigError when two are for one operation; `origin` ("own") says whose they are.
  void add(std::vector<Kernel> kernels, std::string_view origin);
  /// Adds what plugins registered for the device of this name or for its kind of memory.
  void add_registered(const DeviceArguments& arguments,
                      std::string_view device,
                      std::string_view memory_kind);
  /// nullptr when there is none.
  const Kernel* find(std::string_view operation) const;

 private:
  std::map<std::string, Kernel, std::less<>> kernels_;
};

/// Workspace of one launch, given back in stream order when this goes.
class TESSERA_API LaunchWorkspace {
 public:
  LaunchWorkspace(Pool& pool, i64 bytes, Stream& stream);
  LaunchWorkspace(const LaunchWorkspace&) = delete;
  LaunchWorkspace& operator=(const LaunchWorkspace&) = delete;
  ~LaunchWorkspace();
  void* address() const { return block_.address; }  ///< nullptr for 0 bytes

 private:
  Pool& pool_;
  Block block_;
};

}  // namespace tessera
