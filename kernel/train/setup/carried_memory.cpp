#include "kernel/train/setup/carried_memory.hpp"

#include "kernel/comm/memory_kinds.hpp"
#include "tessera/error.hpp"

namespace tessera {

AutoCommunicators auto_communicators(const RunSetup& setup,
                                     const PluginHost& plugins,
                                     const Device& device) {
  const CommSection& comm = setup.config->comm;
  if (comm.communicator.type != kAutoCommunicator || setup.layout.world == 1) return {};
  return auto_communicators(plugins.of_kind(Communicator::kKind),
                            comm.staged ? kHostMemory : device.memory_kind());
}

void check_carried_memory(const RunSetup& setup, const PluginHost& plugins, const Device& device) {
  if (setup.layout.world == 1) return;
  const CommSection& comm = setup.config->comm;
  std::vector<std::string> types{comm.communicator.type};
  if (types.front() == kAutoCommunicator) {
    const AutoCommunicators automatic = auto_communicators(setup, plugins, device);
    types = {automatic.within, automatic.between};
    if (automatic.within.empty() && automatic.between.empty()) {
      const bool host = device.memory_kind() == kHostMemory;
      fail_config(
          "{}: comm.type = \"auto\" finds no communicator that carries tensors of device \"{}\", "
          "in memory of kind \"{}\": load the plugin of one (TESSERA_PLUGIN_PATH){}",
          setup.maker->origin("comm", "type"),
          device.name(),
          device.memory_kind(),
          host || comm.staged
              ? ""
              : ", or set comm.staged = true, which copies what ranks exchange through memory of "
                "the host");
    }
  }
  for (const std::string& type : types) {
    const ComponentInfo* info = plugins.find(Communicator::kKind, type);
    if (info == nullptr || info->memory_kind.empty()) continue;
    try {
      check_memory_kinds({device.name(), device.memory_kind(), type, info->memory_kind},
                         comm.staged);
    } catch (const ConfigError&) {
      rethrow_with(ErrorFrame::Kind::place,
                   comm.staged ? setup.maker->origin("comm", "staged")
                               : setup.maker->origin("device", "type"));
    }
  }
}

}  // namespace tessera
