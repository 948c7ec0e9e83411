#include "kernel/plugin/find_units.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "kernel/plugin/crash_signals.hpp"
#include "kernel/plugin/guarded_child.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

[[noreturn]] void answer(const ComponentInfo& device, int pipe) noexcept {
  struct sigaction as_ever {};
  as_ever.sa_handler = SIG_DFL;
  CrashSignals().handle(as_ever);  // our parent tells of a crash
  const DeviceUnits units = device.units();
  const std::string text = fmt::format("{} {}", units.count, units.text);
  // A pipe takes as much at once; a reason is a line.
  const bool told = write(pipe, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  _exit(told ? 0 : 1);
}

DeviceUnits none(std::string why) { return {0, std::move(why)}; }

}  // namespace

DeviceUnits find_units(const ComponentInfo& device, std::chrono::milliseconds patience) try {
  // Counts time in rounds, so that a suspended job loses one round only.
  const std::chrono::milliseconds round = std::min(patience, std::chrono::milliseconds(500));
  GuardedChild child = fork_guarded();
  if (child.is_here()) answer(device, child.pipe());
  std::string told;
  auto left = patience;
  for (;;) {
    const auto news = child.listen(told, round);
    if (news == GuardedChild::News::ended) break;
    if (news == GuardedChild::News::text) continue;
    left -= round;
    if (left > std::chrono::milliseconds(0)) continue;
    child.end();
    return none(fmt::format("its driver did not answer within {:g} s",
                            std::chrono::duration<double>(patience).count()));
  }
  if (WIFSIGNALED(child.status())) {
    return none(fmt::format("its driver crashed when it was asked: SIG{}",
                            sigabbrev_np(WTERMSIG(child.status()))));
  }
  const std::size_t blank = told.find(' ');
  if (child.status() != 0 || blank == told.npos) {
    return none("its driver ended the process in which it was asked");
  }
  return {std::atoi(told.c_str()), written_plain(told.substr(blank + 1), told.size())};
} catch (const Error& error) {
  return none(error.what());
}

}  // namespace tessera
