// Signal handlers and hooks of exit: they call nothing that may allocate or wait, but for dladdr
// and backtrace, which an alarm guards. So names of functions stay as the linker has them.
#include "kernel/plugin/crash_watch.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "kernel/plugin/crash_signals.hpp"
#include "kernel/plugin/symbols.hpp"
#include "tessera/device/doing.hpp"
#include "tessera/io/data_file.hpp"

namespace tessera {

namespace {

constexpr unsigned kSecondsToTell = 5;

CrashSignals g_crash_signals;
std::atomic<bool> g_watched{false}, g_told{false};
std::atomic<const Doing* const*> g_main{nullptr};  // of the thread that made the watch
std::atomic<pid_t> g_process{0};
std::array<std::atomic<const char*>, 512> g_plugins;
std::atomic<std::size_t> g_plugin_count{0};
alignas(16) std::array<char, 64UL * 1024> g_stack;  // where the thread's own is used up

// One line, written at once.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const std::size_t bytes = std::min(text.size(), text_.size() - 1 - size_);
    std::memcpy(text_.data() + size_, text.data(), bytes);
    size_ += bytes;
    return *this;
  }
  Line& operator<<(int number) {
    char digits[16];
    return *this << std::string_view(
               digits, std::to_chars(digits, digits + sizeof digits, number).ptr - digits);
  }
  Line& hex(u64 number) {
    char digits[16];
    return *this << "0x"
                 << std::string_view(
                        digits,
                        std::to_chars(digits, digits + sizeof digits, number, 16).ptr - digits);
  }
  void write() {
    text_[size_++] = '\n';
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_.data(), size_);
  }

 private:
  std::array<char, 2048> text_;
  std::size_t size_ = 0;
};

const Doing* current() {
  if (const Doing* own = *Doing::innermost()) return own;
  const Doing* const* main = g_main;
  return main != nullptr ? *main : nullptr;
}

// The file of a plugin, if it is one.
const char* plugin_of(const char* file) {
  for (std::size_t k = 0; k < std::min(g_plugin_count.load(), g_plugins.size()); ++k) {
    const char* path = g_plugins[k];
    if (path != nullptr && file != nullptr && std::strcmp(path, file) == 0) return path;
  }
  return nullptr;
}

// The plugin whose code is innermost on the stack, and where in it. `at`: the instruction that
// crashed; nullptr: none did.
void tell_plugin(Line& line, const void* at) {
  void* frames[64];
  const int count = backtrace(frames, 64);
  for (int i = 0; i < count; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) == 0) continue;
    const char* path = plugin_of(info.dli_fname);
    if (path == nullptr) continue;
    // A return address may lie beyond the end of the function that called.
    const u64 back = frames[i] == at ? 0 : 1;
    const u64 offset =
        reinterpret_cast<u64>(frames[i]) - reinterpret_cast<u64>(info.dli_fbase) - back;
    std::array<char, 512> name;
    line << "; the code of " << path << " was running, at ";
    line.hex(offset);
    const std::string_view function = function_at(path, offset, name);
    if (!function.empty()) line << " in " << function;
    return;
  }
}

// The instruction that a signal interrupted.
const void* interrupted(const void* context) {
  const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(machine.gregs[REG_RIP]);
#else
  return reinterpret_cast<const void*>(machine.pc);
#endif
}

// Pages of address space that this process has; 0 where the system does not tell.
rlim_t pages_in_use() {
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[64];
  const ssize_t bytes = read(file, text, sizeof text);
  close(file);
  rlim_t pages = 0;
  if (bytes > 0) std::from_chars(text, text + bytes, pages);
  return pages;
}

// A library that makes code while it runs, as oneDNN does, crashes where it is denied memory.
void tell_memory_limit(Line& line) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const rlim_t used = pages_in_use() * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  constexpr rlim_t kMiB = 1 << 20;
  if (used + std::max(limit.rlim_cur / 10, 64 * kMiB) < limit.rlim_cur) return;  // enough is left
  line << "; the limit of virtual memory (ulimit -v) is " << static_cast<int>(limit.rlim_cur / kMiB)
       << " MiB, of which " << static_cast<int>(used / kMiB) << " are in use";
}

void tell(Line& line, const Doing* doing, const void* at) {
  std::signal(SIGALRM, SIG_DFL);
  alarm(kSecondsToTell);  // a lock may be held for ever
  const char* before = " in ";
  for (const Doing* at = doing; at != nullptr; at = at->around()) {
    if (at->what().empty()) continue;
    line << before << at->what();
    if (!at->name().empty()) line << " \"" << at->name() << "\"";
    before = ", in ";
  }
  tell_plugin(line, at);
  tell_memory_limit(line);
  line.write();
  alarm(0);
}

// A file that a dataset has mapped was cut short, or its disk fails: nobody's code is at fault.
const char* lost_file(int signal, const siginfo_t* info) {
  const bool found = signal == SIGBUS && info != nullptr && info->si_code > 0;
  return found ? DataFile::mapped_at(info->si_addr) : nullptr;
}

void on_crash(int signal, siginfo_t* info, void* context) {
  const Doing* doing = current();
  if (const char* file = lost_file(signal, info); file != nullptr && !g_told.exchange(true)) {
    Line line;
    line << kCrashed << "SIGBUS (Bus error): the file " << file
         << " changed while it was trained on: what was read is no longer in it (it was cut short, "
            "or its disk fails). Put it back as it was and start again, which goes on from the "
            "newest checkpoint";
    line.write();
  }
  if (!g_told.exchange(true) && doing != nullptr && getpid() == g_process) {
    Line line;
    line << kCrashed << "SIG" << sigabbrev_np(signal) << " (" << sigdescr_np(signal) << ")";
    tell(line, doing, interrupted(context));
  }
  g_crash_signals.restore();
  // A fault of the processor happens again on return; a signal that was sent has to be sent again.
  if (info == nullptr || info->si_code <= 0) raise(signal);
}

// `how`: "exit", "_exit", "quick_exit". Returns the code to end with.
int told_code(const char* how, int code, bool known = true) {
  const Doing* doing = *Doing::innermost();  // of the thread that calls
  if (!g_watched || doing == nullptr || getpid() != g_process || g_told.exchange(true)) return code;
  Line line;
  line << kEnded << how;
  if (known) line << "(" << code << ")";
  tell(line, doing, nullptr);
  return code == 0 ? 1 : code;
}

void at_exit(int code, void*) {
  const int told = told_code("exit", code);
  if (told != code) syscall(SYS_exit_group, told);
}

// The hook does not know the exit code; an unfinished run must not end with 0.
void in_quick_exit() {
  if (told_code("quick_exit", 0, false) != 0) syscall(SYS_exit_group, 1);
}

}  // namespace

CrashWatch::CrashWatch() {
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads what it needs
  g_process = getpid();
  g_main = Doing::innermost();
  g_told = false;
  const stack_t stack{.ss_sp = g_stack.data(), .ss_flags = 0, .ss_size = g_stack.size()};
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  g_crash_signals.handle(action);
  static const int hooked = on_exit(at_exit, nullptr) | std::at_quick_exit(in_quick_exit);
  g_watched = hooked == 0;
}

CrashWatch::~CrashWatch() {
  g_watched = false;
  g_main = nullptr;
  g_crash_signals.restore();
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  sigaltstack(&none, nullptr);
}

void CrashWatch::add_plugin(const std::string& path) noexcept {
  const std::size_t at = g_plugin_count++;
  if (at < g_plugins.size()) g_plugins[at] = strdup(path.c_str());  // a crash reads it, at any time
}

int CrashWatch::ended_by(const char* how, int code) noexcept { return told_code(how, code); }

}  // namespace tessera
