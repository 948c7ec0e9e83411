#include "kernel/plugin/load_watch.hpp"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <system_error>

#include "kernel/plugin/crash_signals.hpp"
#include "kernel/plugin/crash_watch.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

int g_parent = -1;
std::atomic<const char*> g_text{nullptr};  // of the file that is being loaded
CrashSignals g_load_signals;

void tell(int descriptor, const char* text) {
  [[maybe_unused]] const auto written = write(descriptor, text, std::strlen(text));
}

// Calls nothing but what a signal handler may.
void on_crash_of_load(int signal) {
  if (const char* text = g_text.exchange(nullptr)) {
    CrashWatch::told();
    tell(STDERR_FILENO, "plugin error: ");
    tell(STDERR_FILENO, text);
    tell(STDERR_FILENO, ": crashed while it was loaded: SIG");
    tell(STDERR_FILENO, sigabbrev_np(signal));
    CrashWatch::end_line();
  }
  g_load_signals.restore();
  raise(signal);  // comes when this handler is left
}

void warn_when_slow(const std::stop_token& loaded,
                    const std::string& file,
                    std::chrono::milliseconds long_time) {
  std::mutex mutex;
  std::condition_variable_any done;
  std::unique_lock lock(mutex);
  done.wait_for(lock, loaded, long_time, [] { return false; });
  if (loaded.stop_requested()) return;
  log_warning(
      "{}: its static constructors or its registration have been running for {:g} s; `tessera "
      "plugins check` says which of them hangs",
      file,
      std::chrono::duration<double>(long_time).count());
}

}  // namespace

void LoadWatch::tell_parent(int descriptor) { g_parent = descriptor; }

LoadWatch::LoadWatch(const std::filesystem::path& file, std::chrono::milliseconds long_time)
    : text_(file.string()) {
  if (g_parent >= 0) {
    tell(g_parent, (text_ + "\n").c_str());
    return;
  }
  doing_.emplace("the static constructors or the registration of", text_);
  try {
    slow_ = std::jthread(warn_when_slow, text_, long_time);
  } catch (const std::system_error&) {
    // The system has no more threads: the library is loaded without this warning.
  }
  g_text = text_.c_str();
  struct sigaction action {};
  action.sa_handler = on_crash_of_load;
  sigemptyset(&action.sa_mask);
  g_load_signals.handle(action);
}

LoadWatch::~LoadWatch() {
  if (g_parent >= 0) {
    tell(g_parent, "\n");
    return;
  }
  g_load_signals.restore();
  g_text = nullptr;
}

}  // namespace tessera
