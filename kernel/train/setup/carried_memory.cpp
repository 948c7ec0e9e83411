#include "kernel/train/setup/carried_memory.hpp"

#include "kernel/comm/communicators.hpp"
#include "kernel/comm/memory_kinds.hpp"
#include "tessera/error.hpp"

namespace tessera {

void check_carried_memory(const RunSetup& setup, const PluginHost& plugins, const Device& device) {
  if (setup.layout.world == 1) return;
  const CommSection& comm = setup.config->comm;
  for (const std::string& type : possible_communicators(comm.communicator.type)) {
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
