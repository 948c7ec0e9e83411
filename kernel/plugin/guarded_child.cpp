#include "kernel/plugin/guarded_child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr std::chrono::milliseconds kLook(5);  // between two looks whether it has ended
constexpr std::chrono::milliseconds kPatience(2000);

// Kills the children of this process, up to some hundreds; how many. In the forked process of one
// that has threads, so nothing is allocated. Where the system has no such file, there are none.
int kill_children() noexcept {
  const int file = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[4096];
  const ssize_t size = read(file, text, sizeof text);
  close(file);
  int killed = 0;
  pid_t pid = 0;
  for (ssize_t i = 0; i < size; ++i) {
    if (text[i] != ' ') {
      pid = pid * 10 + (text[i] - '0');
      continue;
    }
    const pid_t whole = std::exchange(pid, 0);
    if (whole > 0 && kill(whole, SIGKILL) == 0) ++killed;
  }
  return killed;
}

// Ends as the child did. All signals are blocked.
[[noreturn]] void end_like(int status) noexcept {
  if (!WIFSIGNALED(status)) _exit(WEXITSTATUS(status));
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, WTERMSIG(status));
  std::signal(WTERMSIG(status), SIG_DFL);
  std::raise(WTERMSIG(status));
  sigprocmask(SIG_UNBLOCK, &one, nullptr);
  _exit(128 + WTERMSIG(status));
}

// The guard's work. SIGTERM comes when the parent wants the end, or dies.
[[noreturn]] void guard(pid_t child) noexcept {
  sigset_t news;
  sigemptyset(&news);
  sigaddset(&news, SIGCHLD);
  sigaddset(&news, SIGTERM);
  int status = 0;
  for (bool ended = false; !ended;) {
    int signal = 0;
    sigwait(&news, &signal);
    if (signal == SIGTERM) kill(child, SIGKILL);
    int one = 0;
    for (pid_t pid; (pid = waitpid(-1, &one, WNOHANG)) > 0;) {
      if (pid == child) ended = true, status = one;
    }
  }
  // Orphans are children of the guard now, and their children will be.
  while (kill_children() > 0 && waitpid(-1, nullptr, 0) > 0) continue;
  end_like(status);
}

void die_with(pid_t parent, int signal) noexcept {
  prctl(PR_SET_PDEATHSIG, signal);
  if (getppid() != parent) _exit(127);  // it died before it was watched
}

}  // namespace

bool GuardedChild::has_ended() {
  pid_t pid = -1;
  do {
    pid = waitpid(guard_, &status_, WNOHANG);
  } while (pid < 0 && errno == EINTR);
  return pid == guard_;
}

GuardedChild::News GuardedChild::listen(std::string& text, std::chrono::milliseconds time) {
  char buffer[4096];
  const auto take = [&](int wait) {
    pollfd news{.fd = pipe_, .events = POLLIN, .revents = 0};
    if (poll(&news, 1, wait) <= 0) return ssize_t{-1};
    const ssize_t count = read(pipe_, buffer, sizeof buffer);
    if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
    return count;
  };
  const ssize_t count = take(static_cast<int>(time.count()));
  if (count > 0) return News::text;
  // The pipe may be closed before the end, or held open after it by what may not be killed.
  for (auto left = count == 0 ? time : std::chrono::milliseconds(0);; left -= kLook) {
    if (has_ended()) break;
    if (left <= kLook) return News::nothing;
    std::this_thread::sleep_for(kLook);
  }
  while (take(0) > 0) continue;
  close(std::exchange(pipe_, -1));
  return News::ended;
}

void GuardedChild::end() {
  kill(guard_, SIGTERM);
  for (auto left = kPatience; !has_ended() && left > kLook; left -= kLook) {
    std::this_thread::sleep_for(kLook);
  }
  close(std::exchange(pipe_, -1));
}

GuardedChild fork_guarded() {
  int ends[2];
  require(pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe: {}", SystemError());
  const pid_t parent = getpid();
  const pid_t first = fork();
  if (first < 0) {
    const int why = errno;
    close(ends[0]);
    close(ends[1]);
    fail("cannot start a process: {}", SystemError(why));
  }
  if (first > 0) {
    close(ends[1]);
    return {first, ends[0]};
  }
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  std::signal(SIGCHLD, SIG_DFL);  // or the system would take the children away
  die_with(parent, SIGTERM);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  close(ends[0]);
  const pid_t us = getpid();
  const pid_t child = fork();
  if (child == 0) {
    die_with(us, SIGKILL);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return {0, ends[1]};
  }
  close(ends[1]);
  if (child < 0) _exit(127);
  std::signal(SIGTERM, SIG_DFL);  // one that is ignored would not come
  guard(child);
}

}  // namespace tessera
