#include "kernel/plugin/survive.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string_view>

#include "kernel/plugin/guarded_child.hpp"
#include "kernel/plugin/load_watch.hpp"
#include "tessera/written.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

// Time is counted in rounds, so that of a job that is suspended one round passes.
constexpr std::chrono::milliseconds kRound(500);
constexpr int kAllRounds = 40;

double seconds(int rounds) { return std::chrono::duration<double>(rounds * kRound).count(); }

// What a child has told (LoadWatch): which files it began to load, and with which it was done.
class Told {
 public:
  std::string text;

  /// The file whose loading was begun and not ended; empty when there is none.
  fs::path unfinished() const {
    const std::string_view told = whole_lines();
    return told.substr(told.rfind('\n') + 1);
  }
  std::vector<fs::path> finished() const {
    std::vector<fs::path> files;
    std::string_view rest = whole_lines();
    for (std::size_t end = 0; (end = rest.find("\n\n")) != rest.npos; rest.remove_prefix(end + 2)) {
      files.emplace_back(rest.substr(0, end));
    }
    if (rest.ends_with('\n')) files.emplace_back(rest.substr(0, rest.size() - 1));
    return files;
  }

 private:
  std::string_view whole_lines() const {
    return std::string_view(text).substr(0, text.empty() ? 0 : text.size() - 1);
  }
};

// Follows a child to its end. The rounds after which it was killed, as a plugin did not come back;
// 0: it ended by itself. A plugin that came back to an earlier child was only slow.
int follow(GuardedChild& child, Told& told, int left, const std::vector<fs::path>& loaded) {
  for (int quiet = 0;;) {
    const auto news = child.listen(told.text, kRound);
    if (news == GuardedChild::News::ended) return 0;
    quiet = news == GuardedChild::News::text ? 0 : quiet + 1;
    const fs::path file = told.unfinished();
    const int most = std::ranges::count(loaded, file) > 0 ? kAllRounds / 2 : (left + 1) / 2;
    if (file.empty() || quiet < most) continue;
    child.end();
    return most;
  }
}

std::string describe(int status) {
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

std::optional<std::string> TriedPlugins::reason_against(const fs::path& file) const {
  const auto known = std::ranges::find(crashed, file, &CrashedPlugin::file);
  if (known != crashed.end()) return known->text;
  if (!out_of_time || std::ranges::count(loaded, file) > 0) return std::nullopt;
  return fmt::format(
      "{}: was not tried: those that did not come back took {:g} s; `tessera plugins check` tries "
      "it alone",
      written_path(file),
      seconds(kAllRounds));
}

std::optional<int> continue_in_child(TriedPlugins& tried) {
  int left = kAllRounds;
  for (;;) {
    std::fflush(nullptr);  // or the child would print it once more
    GuardedChild child = fork_guarded();
    if (child.is_here()) {
      LoadWatch::tell_parent(child.pipe());
      return std::nullopt;
    }
    Told told;
    const int waited = follow(child, told, left, tried.loaded);
    const int status = child.status();
    const fs::path file = told.unfinished();
    for (fs::path& done : told.finished()) tried.loaded.push_back(std::move(done));
    const bool again = std::ranges::count(tried.crashed, file, &CrashedPlugin::file) > 0;
    if (!file.empty() && !again && (waited > 0 || !was_told_to_end(status))) {
      const std::string how =
          waited > 0
              ? fmt::format("did not come back within {:g} s while it was loaded", seconds(waited))
              : describe(status);
      tried.crashed.push_back({file, fmt::format("{}: {}", written_path(file), how)});
      if (tried.out_of_time && waited > 0) tried.loaded.clear();  // nothing is tried any more
      left = std::max(left - waited, 0);
      tried.out_of_time = left == 0;
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
