#pragma once
#include <chrono>
#include <filesystem>
#include <string>

namespace tessera {

/// What `tessera plugins check FILE` found.
struct PluginCheck {
  enum Outcome { good, bad, crashed, hung } outcome = good;
  /// The plugin's contents when good, otherwise the error; no line break at the end.
  std::string text;
};

/// Loads a plugin, registers its components and checks their descriptions, in a child process: a
/// library that crashes or never returns does that to the child only. `program` is the tessera
/// program, which is started with kPluginCheckCommand.
PluginCheck check_plugin(const std::filesystem::path& program,
                         const std::filesystem::path& file,
                         std::chrono::milliseconds timeout = std::chrono::seconds(20));

/// The hidden command of the child, `tessera plugins check-child FILE`, and its body: returns the
/// exit code. Standard output is its answer to check_plugin.
inline constexpr const char* kPluginCheckCommand = "check-child";
int run_plugin_check_child(const std::filesystem::path& file);

}  // namespace tessera
