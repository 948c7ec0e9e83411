#include "tessera/device/kernel_table.hpp"

#include <fmt/format.h>

#include <utility>

#include "tessera/error.hpp"

namespace tessera {

void KernelTable::add(std::vector<Kernel> kernels, std::string_view origin) {
  std::map<std::string, Kernel, std::less<>> added;
  for (Kernel& kernel : kernels) {
    require(kernel.launch && kernel.effort && kernel.args_bytes > 0 && kernel.tensors >= 0,
            "the kernel of operation \"{}\" ({}) is incomplete: make it with make_kernel",
            kernel.operation,
            origin);
    std::string operation = kernel.operation;
    const bool first = added.emplace(operation, std::move(kernel)).second;
    if (!first) fail_config("operation \"{}\" has two kernels ({})", operation, origin);
  }
  kernels_.merge(added);
}

void KernelTable::add_registered(const DeviceArguments& arguments,
                                 std::string_view device,
                                 std::string_view memory_kind) {
  if (!arguments.kernels) return;
  add(arguments.kernels(device, memory_kind),
      fmt::format("registered for device \"{}\" or \"{}\"", device, memory_kind));
}

const Kernel* KernelTable::find(std::string_view operation) const {
  const auto found = kernels_.find(operation);
  return found == kernels_.end() ? nullptr : &found->second;
}

LaunchWorkspace::LaunchWorkspace(Pool& pool, i64 bytes, Stream& stream) : pool_(pool) {
  if (bytes > 0) block_ = pool.allocate(bytes, Category::workspace, stream);
}
LaunchWorkspace::~LaunchWorkspace() {
  if (block_.address) pool_.release(block_);
}

}  // namespace tessera
