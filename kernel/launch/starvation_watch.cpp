#include "kernel/launch/starvation_watch.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "kernel/launch/failure.hpp"
#include "kernel/launch/signals.hpp"
#include "kernel/system/limits.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

using Kills = std::optional<OutOfMemoryKills>;

// Waits for the end of the process at the other end; says whether it ended without a word. `asked`
// is called now and then.
template <class F>
bool ended_in_silence(int from, F&& asked) {
  constexpr int kPeriod = 5000;  // milliseconds
  pollfd wait{.fd = from, .events = POLLIN, .revents = 0};
  while (poll(&wait, 1, kPeriod) <= 0) asked();
  char word = 0;
  return read(from, &word, 1) == 0;
}

// The count may rise for any process of the group, or of the host. So what counts is that it did
// within the last seconds.
void watch(
    int from, pid_t watched, Kills last, const std::string& proc, const std::string& groups) {
  prctl(PR_SET_NAME, "tessera-watch");
  for (const int signal : kStopSignals) std::signal(signal, SIG_IGN);  // for the one it watches
  Kills before = last;
  const auto ask = [&] { before = std::exchange(last, out_of_memory_kills(proc, groups)); };
  if (!ended_in_silence(from, ask)) return;
  const Kills after = out_of_memory_kills(proc, groups);
  if (!before || !after || after->count <= before->count) return;
  write_all(STDERR_FILENO, starved_text(fmt::format("process {}", watched), after->limit) + "\n");
}

}  // namespace

StarvationWatch::StarvationWatch(const std::string& proc, const std::string& groups) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  const pid_t watched = getpid();
  const Kills kills = out_of_memory_kills(proc, groups);
  watcher_ = fork();
  if (watcher_ == 0) {
    close(ends[1]);
    watch(ends[0], watched, kills, proc, groups);
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
  kill(watcher_, SIGKILL);  // it may be stopped, and would not hear that this process ends well
  close(end_);
  while (waitpid(watcher_, nullptr, 0) < 0 && errno == EINTR) continue;
}

}  // namespace tessera
