#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

#include "kernel/cli/parse.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/launch/processors.hpp"
#include "kernel/plugin/crash_watch.hpp"
#include "kernel/system/limits.hpp"
#include "tessera/error.hpp"

namespace {

// OpenMP's threads spin for milliseconds before they sleep, which is worth little on an idle host
// and starves the thread that they wait for on a busy one (tests/bench/busy_host.py). libgomp reads
// its settings while it is loaded, before main: so the program starts itself once more. No other
// OpenMP is linked, so there is no blocktime (KMP_BLOCKTIME) to set. What the user has set stays.
// Without /proc the program goes on as it is.
void bound_openmp_spin(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", "2000", 1) != 0) return;
  tessera::release_processors();
  execv("/proc/self/exe", argv);
}

// An opened file takes the lowest free number: without a standard output (`>&-`) the first pipe or
// file of a run would take its place.
void open_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDWR);
  }
}

// A parent that ignores the ends of its children hands that on; then nobody could wait for a rank.
void wait_for_children() { std::signal(SIGCHLD, SIG_DFL); }

// A file over the limit (ulimit -f) is an error that names it, not a death, in launcher and ranks.
void let_writes_fail() { std::signal(SIGXFSZ, SIG_IGN); }

std::unique_ptr<char[]> memory_for_last_words;
std::terminate_handler terminate_before;

// Where memory ends, a destructor that allocates, as the JSON library's does, ends the program: the
// limit is named then, too.
[[noreturn]] void terminate_with_the_limit() noexcept {
  static std::atomic_flag entered;  // by a second thread, or by what fails here
  if (!entered.test_and_set()) {
    memory_for_last_words.reset();
    try {
      if (std::current_exception() != nullptr) {
        const std::string limit = tessera::explain_limit(tessera::error_in_flight());
        if (!limit.empty()) tessera::show_error("error: {}\n", limit);
      }
    } catch (...) {
    }
  }
  terminate_before();
  std::abort();
}

void name_the_limit_also_at_the_end() {
  memory_for_last_words = std::make_unique_for_overwrite<char[]>(1 << 20);
  terminate_before = std::set_terminate(terminate_with_the_limit);
}

}  // namespace

// Interpose libc's, which has no hook, for all libraries of this program: a component that ends a
// run is named.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
[[noreturn, gnu::visibility("default")]] void _exit(int code) {
  code = tessera::CrashWatch::ended_by("_exit", code);
  for (;;) syscall(SYS_exit_group, code);
}
[[noreturn, gnu::visibility("default")]] void _Exit(int code) noexcept { _exit(code); }
}
#endif

int main(int argc, char** argv) {
  using namespace tessera;
  open_standard_descriptors();
  wait_for_children();
  let_writes_fail();
  bound_openmp_spin(argv);
  name_the_limit_also_at_the_end();
  return run_program(argc,
                     argv,
                     {
                         .train = run_train,
                         .plan = run_plan,
                         .calibrate = run_calibrate,
                         .generate = run_generate,
                         .eval = run_eval,
                         .checkpoint = run_checkpoint,
                         .checkpoint_diff = run_checkpoint_diff,
                         .checkpoint_export = run_checkpoint_export,
                         .checkpoint_reshard = run_checkpoint_reshard,
                         .convert = run_convert,
                         .data_show = run_data_show,
                         .data_verify = run_data_verify,
                         .data_merge = run_data_merge,
                         .data_split = run_data_split,
                         .data_build = run_data_build,
                         .data_overlap = run_data_overlap,
                         .tokenizer_train = run_tokenizer_train,
                         .ranks = run_ranks,
                         .schedule = run_schedule,
                         .plugins_list = run_plugins_list,
                         .plugins_show = run_plugins_show,
                         .plugins_check = run_plugins_check,
                         .plugins_check_child = run_plugins_check_child,
                         .new_plugin = run_new,
                         .config_check = run_config_check,
                         .config_dump = run_config_dump,
                         .config_diff = run_config_diff,
                         .config_keys = run_config_keys,
                     });
}
