#include "kernel/plugin/load_watch.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>

#include "kernel/plugin/crash_signals.hpp"
#include "kernel/plugin/crash_watch.hpp"

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
    tell(STDERR_FILENO, "\n");
  }
  g_load_signals.restore();
  raise(signal);  // comes when this handler is left
}

}  // namespace

void LoadWatch::tell_parent(int descriptor) { g_parent = descriptor; }

LoadWatch::LoadWatch(const std::filesystem::path& file) : text_(file.string()) {
  if (g_parent >= 0) {
    tell(g_parent, (text_ + "\n").c_str());
    return;
  }
  doing_.emplace("the static constructors or the registration of", text_);
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
