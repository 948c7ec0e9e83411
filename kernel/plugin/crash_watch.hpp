#pragma once
#include <string>

namespace tessera {

/// While one lives, a process that crashes says where, on standard error in one line: which signal,
/// which operation, phase and component (Doing), and which plugin's code was running. So does one
/// that a component ends with exit() or _exit(), and its exit code is then not 0. Afterwards the
/// process ends as it would have. Made once, by the program `tessera`, on the thread that runs the
/// training: what crashes on a helper thread of a kernel is told with what this thread is doing.
/// Other programs that link this library keep their signals.
class CrashWatch {
 public:
  CrashWatch();
  ~CrashWatch();
  CrashWatch(const CrashWatch&) = delete;
  CrashWatch& operator=(const CrashWatch&) = delete;

  /// A file whose code counts as a plugin's until the process ends.
  static void add_plugin(const std::string& path) noexcept;
  /// For a function in place of libc's _exit, which has no hook: tells that a component ends the
  /// process, and returns the code to end it with.
  static int ended_by(const char* how, int code) noexcept;
};

/// How such a line begins.
inline constexpr const char* kCrashed = "crashed by ";
inline constexpr const char* kEnded = "the process was ended by ";

}  // namespace tessera
