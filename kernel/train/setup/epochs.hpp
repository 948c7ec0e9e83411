#pragma once
#include <string>
#include <vector>

#include "kernel/config/config.hpp"
#include "kernel/plugin/host.hpp"

namespace tessera {

/// What becomes of run.epochs where the dataset cannot be opened.
enum class UnknownEpochs : u8 {
  error,
  one_step  ///< stands for them, which is told: for what does not depend on the number of steps
};

/// What files and --set say of a run. Where they have run.epochs in the place of run.steps, the
/// dataset is opened, and run.steps becomes as many as read each of its training samples so often:
/// epochs · samples / batch.global, rounded up. Where both are written, run.epochs counts only if a
/// later file or --set writes it. Throws ConfigError for a configuration that cannot be resolved.
Config load_run(const std::vector<std::string>& files,
                const std::vector<std::string>& sets,
                const PluginHost& plugins,
                UnknownEpochs unknown);

}  // namespace tessera
