#include "kernel/plugin/survive.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "kernel/plugin/guarded_child.hpp"
#include "kernel/plugin/load_watch.hpp"
#include "tessera/error.hpp"
#include "tessera/written.hpp"

namespace tessera {

namespace {

// The file whose loading was begun and not ended; empty when there is none.
std::string unfinished(std::string text) {
  if (text.empty()) return text;
  text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

struct Told {
  std::string text;   // all that the child has told
  bool hung = false;  // a plugin did not come back: the child was killed
};

// Time is counted in rounds, so that of a job that is suspended one round passes.
Told listen(const GuardedChild& child) {
  constexpr int kRound = 500, kRounds = 20;  // milliseconds; 10 s
  Told told;
  char buffer[4096];
  for (int quiet = 0;;) {
    pollfd news{.fd = child.pipe, .events = POLLIN, .revents = 0};
    if (poll(&news, 1, kRound) <= 0) {
      if (++quiet < kRounds || unfinished(told.text).empty()) continue;
      kill(child.pid, SIGKILL);
      told.hung = true;
      return told;
    }
    const ssize_t count = read(child.pipe, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return told;
    told.text.append(buffer, static_cast<std::size_t>(count));
    quiet = 0;
  }
}

std::string describe(int status, bool hung) {
  if (hung) return "did not come back within 10 s while it was loaded";
  if (!WIFSIGNALED(status)) {
    return fmt::format("ended the process with exit code {} while it was loaded",
                       WEXITSTATUS(status));
  }
  return fmt::format("crashed while it was loaded: SIG{}, {}",
                     sigabbrev_np(WTERMSIG(status)),
                     sigdescr_np(WTERMSIG(status)));
}

// Asked to end from outside, and not by what it did itself.
bool was_told_to_end(int status) {
  constexpr int kRequests[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGKILL};
  return WIFSIGNALED(status) && std::ranges::count(kRequests, WTERMSIG(status)) > 0;
}

}  // namespace

std::optional<int> continue_in_child(std::vector<CrashedPlugin>& crashed) {
  for (;;) {
    std::fflush(nullptr);  // or the child would print it once more
    const GuardedChild child = fork_guarded();
    if (child.pid == 0) {
      LoadWatch::tell_parent(child.pipe);
      return std::nullopt;
    }
    const Told told = listen(child);
    const std::filesystem::path file = unfinished(told.text);
    close(child.pipe);
    int status = 0;
    while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) continue;
    const bool again = std::ranges::count(crashed, file, &CrashedPlugin::file) > 0;
    if (!file.empty() && !again && (told.hung || !was_told_to_end(status))) {
      crashed.push_back(
          {file, fmt::format("{}: {}", written_path(file), describe(status, told.hung))});
      continue;
    }
    if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
    // As if there were no child.
    std::signal(WTERMSIG(status), SIG_DFL);
    std::raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
  }
}

}  // namespace tessera
