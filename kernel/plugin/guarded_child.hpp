#pragma once
#include <sys/types.h>

namespace tessera {

/// A process for what may crash: it dies with its parent and leaves no core file, and a pipe leads
/// from it to the parent.
struct GuardedChild {
  pid_t pid = 0;  ///< 0 in the child
  int pipe = -1;  ///< in the parent the end to read from, in the child the end to write to
};

/// Forks. In a process that has threads the child may only make system calls, up to exec. Throws
/// Error in the parent when there can be no pipe or process.
GuardedChild fork_guarded();

}  // namespace tessera
