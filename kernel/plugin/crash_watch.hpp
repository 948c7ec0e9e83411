#pragma once
#include <string>

namespace tessera {

/// While one lives, a process that crashes says where, on standard error in one line: which signal,
/// which operation, phase and component (Doing), and which plugin's code was running. So does one
/// that a component ends with exit() or _exit(), and its exit code is then not 0. Afterwards the
/// process ends as it would have. Made once, by the program, on the thread that runs the training:
/// what crashes on a helper thread of a kernel is told with what this thread is doing.
class CrashWatch {
 public:
  CrashWatch();
  ~CrashWatch();
  CrashWatch(const CrashWatch&) = delete;
  CrashWatch& operator=(const CrashWatch&) = delete;

  /// A file whose code counts as a plugin's until the process ends.
  static void add_plugin(const std::string& path) noexcept;
  /// The crash that is under way was told: say nothing more.
  static void told() noexcept;
  /// For handlers of signals: ends a line on standard error, before that with the limit of virtual
  /// memory where little is left of it.
  static void end_line() noexcept;
};

/// How such a line begins.
inline constexpr const char* kCrashed = "crashed by ";
inline constexpr const char* kEnded = "the process was ended by ";

}  // namespace tessera
