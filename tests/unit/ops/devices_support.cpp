#include "tests/unit/ops/devices_support.hpp"

#include <filesystem>
#include <map>
#include <utility>

#include "kernel/config/config.hpp"
#include "kernel/plugin/host.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

const PluginHost& host() {
  static const std::unique_ptr<PluginHost> kHost = [] {
    const std::filesystem::path build = TESSERA_BUILD_DIR;
    return std::make_unique<PluginHost>(std::vector{build / "plugins", build / "tests/cuda"});
  }();
  return *kHost;
}

// A host of its own, as no test asks for all devices of this one.
const PluginHost& emulated_host() {
  static const PluginHost kHost(
      std::vector<std::filesystem::path>{TESSERA_BUILD_DIR "/tests/plugins/amx_emulated"});
  return kHost;
}

std::shared_ptr<Device> made(const PluginHost& plugins,
                             const std::string& name,
                             DeviceArguments arguments,
                             const std::vector<std::string>& keys) {
  if (!arguments.kernels) {
    arguments.kernels = [](std::string_view device, std::string_view memory) {
      return host().kernels(device, memory);
    };
  }
  std::vector<std::string> sets;
  for (const std::string& key : keys) sets.push_back("device." + key);
  const Config config = Config::parse("", "text", sets);
  return plugins.make<Device>(name, *config.node("device"), {}, arguments);
}

// Nullptr where the host lacks what the device needs.
std::shared_ptr<Device> if_here(const PluginHost& plugins,
                                const std::string& name,
                                const std::vector<std::string>& keys) {
  DeviceArguments arguments;
  arguments.threads = 2;
  try {
    return made(plugins, name, arguments, keys);
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* wanting : {"this processor has no",
                                "the system gives this process no tile registers",
                                "oneDNN multiplies bf16 with AVX-512 only",
                                "no MKL "}) {
      if (text.find(wanting) != std::string::npos) return nullptr;
    }
    throw;
  }
}

}  // namespace

std::shared_ptr<Device> cpu_device(const std::vector<std::string>& keys) {
  return if_here(host(), "cpu", keys);
}

std::shared_ptr<Device> cpu_device_on(const std::string& isa) {
  if (isa == "amx_emulated") return if_here(emulated_host(), "test_amx_emulated", {});
  return cpu_device({"isa=" + isa});
}

std::shared_ptr<Device> test_device(const std::string& name, int threads) {
  DeviceArguments arguments;
  arguments.threads = threads;
  return test_device(name, arguments);
}

std::shared_ptr<Device> test_device(const std::string& name,
                                    DeviceArguments arguments,
                                    const std::vector<std::string>& keys) {
  return made(host(), name, std::move(arguments), keys);
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

const std::vector<testing::OpCase>& core_cases(DType dtype) {
  static std::map<DType, std::vector<testing::OpCase>> made;
  const auto [at, is_new] = made.try_emplace(dtype);
  if (is_new) at->second = testing::core_op_cases(dtype);
  return at->second;
}

const testing::OpOutcome& reference_outcome(DType dtype, std::size_t place) {
  static std::map<std::pair<DType, std::size_t>, testing::OpOutcome> known;
  const std::pair key(dtype, place);
  auto found = known.find(key);
  if (found == known.end()) {  // an entry is made once its value is: a run may throw
    found =
        known.emplace(key, testing::run_op(*test_device("reference"), core_cases(dtype).at(place)))
            .first;
  }
  return found->second;
}

}  // namespace tessera
