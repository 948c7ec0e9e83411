#pragma once
#include <memory>
#include <string>

#include "kernel/plugin/origin.hpp"
#include "tessera/operation.hpp"

namespace tessera {

/// The same component of a plugin, whose exceptions name plugin, component and call, and whose
/// crashes do so too (CrashWatch). `made` is a K* of this kind; so is the result. A device stays as
/// it is, but for its kernels (named_kernel). `place` is where the component is configured, "at
/// run.toml:12:8: [model.block.mlp]". `origin` lives as long as the process.
std::shared_ptr<void> named(std::string_view kind,
                            std::string_view type,
                            std::string place,
                            std::shared_ptr<void> made,
                            const PluginOrigin& origin);

/// The same kernel, whose exceptions name its operation and plugin.
Kernel named_kernel(Kernel kernel, const PluginOrigin& origin);

}  // namespace tessera
