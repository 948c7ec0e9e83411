#include "emulated_gpus_support.hpp"

#include <cstdlib>
#include <memory>

#include "kernel/comm/threads.hpp"

namespace tessera::testing {

const PluginHost& emulated_gpus() {
  static const std::unique_ptr<PluginHost> kHost = [] {
    setenv("TESSERA_EMULATED_GPUS", "8", 1);
    auto made = std::make_unique<PluginHost>(std::vector<std::filesystem::path>{
        TESSERA_BUILD_DIR "/plugins", TESSERA_BUILD_DIR "/tests/cuda"});
    made->add_builtin(&register_threads);
    return made;
  }();
  return *kHost;
}

}  // namespace tessera::testing
