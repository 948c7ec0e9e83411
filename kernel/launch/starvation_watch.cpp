#include "kernel/launch/starvation_watch.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include "kernel/launch/failure.hpp"
#include "kernel/launch/limits.hpp"
#include "kernel/launch/signals.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

// Whether the process at the other end ended without a word.
bool ended_in_silence(int from) {
  char word = 0;
  ssize_t count = 0;
  do count = read(from, &word, 1);
  while (count < 0 && errno == EINTR);
  return count == 0;
}

struct Watched {
  pid_t process = 0;
  std::optional<OutOfMemoryKills> before;
};

void watch(int from,
           const Watched& watched,
           const std::string& proc,
           const std::string& groups) {
  prctl(PR_SET_NAME, "tessera-watch");
  for (const int signal : kStopSignals) std::signal(signal, SIG_IGN);  // for the one it watches
  if (!ended_in_silence(from)) return;
  const auto after = out_of_memory_kills(proc, groups);
  if (!watched.before || !after || after->count <= watched.before->count) return;
  const std::string who = fmt::format("process {}", watched.process);
  write_all(STDERR_FILENO, starved_text(who, after->limit) + "\n");
}

}  // namespace

StarvationWatch::StarvationWatch(const std::string& proc, const std::string& groups) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  const Watched watched{getpid(), out_of_memory_kills(proc, groups)};
  watcher_ = fork();
  if (watcher_ == 0) {
    close(ends[1]);
    watch(ends[0], watched, proc, groups);
    _exit(0);
  }
  close(ends[0]);
  if (watcher_ > 0) {
    end_ = ends[1];
  } else {
    close(ends[1]);
  }
}

StarvationWatch::~StarvationWatch() {
  if (end_ < 0) return;
  [[maybe_unused]] const auto sent = send(end_, ".", 1, MSG_NOSIGNAL);  // it may be gone
  close(end_);
  while (waitpid(watcher_, nullptr, 0) < 0 && errno == EINTR) continue;
}

}  // namespace tessera
