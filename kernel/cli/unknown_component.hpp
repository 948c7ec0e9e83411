#pragma once
#include <string>

#include "kernel/plugin/host.hpp"

namespace tessera {

/// Throws ConfigError: there is no component `subject` ("KIND/NAME"); shows which there are
/// instead.
[[noreturn]] void fail_unknown_component(const PluginHost& host, const std::string& subject);

}  // namespace tessera
