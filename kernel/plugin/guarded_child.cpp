#include "kernel/plugin/guarded_child.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "tessera/error.hpp"

namespace tessera {

GuardedChild fork_guarded() {
  int ends[2];
  require(pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe: {}", std::strerror(errno));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  require(pid >= 0, "cannot start a process: {}", std::strerror(errno));
  if (pid > 0) {
    close(ends[1]);
    return {pid, ends[0]};
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before it was watched
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  close(ends[0]);
  return {0, ends[1]};
}

}  // namespace tessera
