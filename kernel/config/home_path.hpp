#pragma once
#include <string>
#include <string_view>

namespace tessera {

/// A path as a shell would read it: "~" and "~/x" begin at the folder that HOME names. Every path
/// that somebody writes goes through here, because a shell leaves `run.out = "~/x"` and `--out=~/x`
/// as they are. Throws ConfigError for "~name" and where HOME names no folder; "./~name" is a file
/// of that name.
std::string expand_home(std::string_view path);

}  // namespace tessera
