#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// A plugin's file that ended the process which loaded it, or did not come back.
struct CrashedPlugin {
  std::filesystem::path file;
  std::string text;  ///< beginning with the file
};

/// What is known of plugins from processes that have loaded them already.
struct TriedPlugins {
  std::vector<CrashedPlugin> crashed;
  std::vector<std::filesystem::path> loaded;  ///< files that came back, or were refused
  bool out_of_time = false;                   ///< no others are tried

  /// Why this file is not to be loaded, beginning with the file; nothing where it is.
  std::optional<std::string> reason_against(const std::filesystem::path& file) const;
};

/// For programs that only look at plugins: the caller goes on in a child process, which gets
/// nothing back. When a plugin that is being loaded ends that process, or does not come back, the
/// caller goes on in a new one, where `tried` says what to leave alone. All plugins that do not
/// come back get 20 s together: the first 10 s, each next one half of what is left; then no further
/// ones are tried. Processes that plugins have started end with the child. The parent gets the exit
/// code of the child that came through. To be called before the process has threads.
std::optional<int> continue_in_child(TriedPlugins& tried);

}  // namespace tessera
