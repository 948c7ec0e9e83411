#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "tessera/device/doing.hpp"

namespace tessera {

/// While one lives, this plugin's file is being loaded: what crashes or ends the process meanwhile
/// is told with the file's name, where a CrashWatch looks. A warning names a file whose loading
/// takes longer than `long_time`.
class LoadWatch {
 public:
  explicit LoadWatch(const std::filesystem::path& file,
                     std::chrono::milliseconds long_time = std::chrono::seconds(5));

 private:
  std::string file_;
  Doing doing_;
  std::jthread slow_;
};

}  // namespace tessera
