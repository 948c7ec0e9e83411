#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "tessera/doing.hpp"

namespace tessera {

/// While one lives, this plugin's file is being loaded: what crashes the process meanwhile is told
/// on standard error with the file's name. Then the process ends as it would have. A warning names
/// a file whose loading takes longer than `long_time`.
class LoadWatch {
 public:
  explicit LoadWatch(const std::filesystem::path& file,
                     std::chrono::milliseconds long_time = std::chrono::seconds(5));
  ~LoadWatch();
  LoadWatch(const LoadWatch&) = delete;
  LoadWatch& operator=(const LoadWatch&) = delete;

  /// For the rest of this process tell a parent instead, which sees its end: a line with the file
  /// when loading begins, an empty one when it is done.
  static void tell_parent(int descriptor);

 private:
  std::string text_;
  std::optional<Doing> doing_;
  std::jthread slow_;
};

}  // namespace tessera
