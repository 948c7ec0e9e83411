#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/plugin/host.hpp"

namespace tessera {

/// A part of a run, from one start of the program to its end: what it is made with.
struct RunPart {
  i64 step = 0;              ///< that the run had before
  std::string tessera;       ///< version_text()
  std::string host, device;  ///< of rank 0
  std::string layout;        ///< for people: "data 2, 2 ranks over shm"
  std::string resumed_from;  ///< the checkpoint's folder, or empty
  std::vector<std::string> command;
  std::vector<std::string> changed;  ///< keys since the checkpoint, a line each
  std::vector<PluginHost::Fingerprint> plugins;
};

/// history.jsonl of a run's folder: a line for the start and one for the end of each part. Lines
/// are only ever added. A part without an end was killed. Written by rank 0.
class RunHistory {
 public:
  explicit RunHistory(const std::filesystem::path& folder) : file_(folder / "history.jsonl") {}
  /// Keeps the file of another run under another name.
  void set_aside() const;
  /// Says on standard error, where the run `goes_on`, what is not as it was in its last part:
  /// "host: a, now b". Throws Error naming the file.
  void begin(const RunPart& part, bool goes_on);
  /// Ends the part that has begun, if one has. `outcome` is "finished", "stopped" or "failed", with
  /// the reason then. Where this cannot be written there is a warning: the training is over.
  void end(i64 step, std::string_view outcome, std::string_view error = {}) noexcept;

 private:
  void append(const std::string& line) const;
  std::filesystem::path file_;
  bool begun_ = false;
};

}  // namespace tessera
