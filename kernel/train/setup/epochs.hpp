#pragma once
#include <string>
#include <vector>

#include "kernel/config/config.hpp"
#include "kernel/plugin/host.hpp"

namespace tessera {

/// What files and --set say of a run. Where they have run.epochs in the place of run.steps, the
/// dataset is opened, and run.steps becomes as many as read each of its training samples so often:
/// epochs · samples / batch.global, rounded up. Where it cannot be opened, which is told, it is 1:
/// a run ends by the same error later, and a plan does not depend on it. Of both keys the one
/// counts that a later file or --set writes; in one file they are a ConfigError.
Config load_run(const std::vector<std::string>& files,
                const std::vector<std::string>& sets,
                const PluginHost& plugins);

}  // namespace tessera
