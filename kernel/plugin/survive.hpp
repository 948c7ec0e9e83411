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

/// For programs that only look at plugins: the caller goes on in a child process, which gets
/// nothing back. When a plugin that is being loaded ends that process, or takes more than 10 s, the
/// caller goes on in a new one, with that plugin added to `crashed`, to be left alone. The parent
/// gets the exit code of the child that came through. To be called before the process has threads.
std::optional<int> continue_in_child(std::vector<CrashedPlugin>& crashed);

}  // namespace tessera
