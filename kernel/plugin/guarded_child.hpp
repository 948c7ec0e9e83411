#pragma once
#include <sys/types.h>

#include <chrono>
#include <string>

namespace tessera {

/// A process for what may crash, hang or start processes of its own. It leaves no core file, and a
/// pipe leads from it to the parent. Between the two stands a guard, a process that ends as this
/// one did, but not before all that it started has ended too. When the parent dies, all of them go.
/// For one thread, that of fork_guarded().
class GuardedChild {
 public:
  /// Is this the child, where the end of the pipe is one to write to?
  bool is_here() const { return guard_ == 0; }
  int pipe() const { return pipe_; }

  enum class News { nothing, text, ended };
  /// The parent waits for up to `time` for what the child writes, and adds it to `text`; or for its
  /// end, after which nothing more comes.
  News listen(std::string& text, std::chrono::milliseconds time);
  /// Ends it and waits for that, but no longer than 2 s: what hangs in the system's kernel may not
  /// be killed. Then the guard stays, and ends with it.
  void end();
  /// The status of waitpid after News::ended, or after an end() that has seen the end; else 0.
  int status() const { return status_; }

 private:
  friend GuardedChild fork_guarded();
  GuardedChild(pid_t guard, int pipe) : guard_(guard), pipe_(pipe) {}
  bool has_ended();

  pid_t guard_;
  int pipe_, status_ = 0;
};

/// Forks. In a process that has threads the child may only make system calls, up to exec. Throws
/// Error in the parent when there can be no pipe or process.
GuardedChild fork_guarded();

}  // namespace tessera
