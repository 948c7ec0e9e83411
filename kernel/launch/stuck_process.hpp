#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>

namespace tessera {

/// The state of a process or thread from its file `stat` in /proc: 'R', 'S', 'T', 'D' …; 0 where
/// it is gone.
char process_state(const std::filesystem::path& stat);

/// What keeps a process from its end, from /proc: "process 4711 is in state D (no signal reaches
/// it) and waits in nfs_wait_bit_killable, called by nfs4_proc_getattr". It tells of the first
/// thread in state D or, where none is, of the process. `proc`: where the system tells.
std::string stuck_text(pid_t pid, const std::filesystem::path& proc = "/proc");

}  // namespace tessera
