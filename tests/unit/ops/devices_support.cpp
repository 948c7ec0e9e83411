#include "tests/unit/ops/devices_support.hpp"

#include <filesystem>

#include "kernel/config/tree.hpp"
#include "kernel/plugin/host.hpp"

namespace tessera {
namespace {

const PluginHost& host() {
  static const std::unique_ptr<PluginHost> kHost = [] {
    const std::filesystem::path build = TESSERA_BUILD_DIR;
    return std::make_unique<PluginHost>(std::vector{build / "plugins", build / "tests/cuda"});
  }();
  return *kHost;
}

}  // namespace

std::shared_ptr<Device> test_device(const std::string& name, int threads) {
  DeviceArguments arguments;
  arguments.threads = threads;
  return test_device(name, arguments);
}

std::shared_ptr<Device> test_device(const std::string& name, DeviceArguments arguments) {
  if (!arguments.kernels) {
    arguments.kernels = [](std::string_view device, std::string_view memory) {
      return host().kernels(device, memory);
    };
  }
  return host().make<Device>(
      name, *make_node(std::make_shared<ConfigTree>(), "device"), {}, arguments);
}

std::vector<std::string> cpu_devices() {
  std::vector<std::string> names;
  for (const ComponentInfo* info : host().of_kind(Device::kKind)) {
    DeviceArguments arguments;
    arguments.planned = true;  // a GPU need not be there
    if (test_device(info->type, arguments)->memory_kind() == kHostMemory) {
      names.push_back(info->type);
    }
  }
  return names;
}

}  // namespace tessera
