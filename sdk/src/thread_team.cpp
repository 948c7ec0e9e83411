#include "tessera/device/thread_team.hpp"

#include <fmt/format.h>
#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "sdk/src/team_texts.hpp"
#include "tessera/device/floating_point_mode.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera {
namespace {

constexpr std::size_t kSmallestStack = 512UL * 1024;  // as kernel/launch asks of the first thread

// "NAME=value", or `otherwise` where it is not set: then code of this process did it.
std::string setting(const char* name, std::string_view otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string(otherwise)
                          : fmt::format("{}={}", name, written_plain(value));
}

bool levels_used_up() { return omp_get_active_level() >= omp_get_max_active_levels(); }

// The stack of the calling thread; INT_MAX bytes where the system does not say.
std::size_t stack_bytes() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return INT_MAX;
  std::size_t bytes = 0;
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_destroy(&attributes);
  return bytes;
}

}  // namespace

TeamLimit team_limit() {
  if (omp_get_max_active_levels() == 0) {
    return {1, setting("OMP_MAX_ACTIVE_LEVELS", "omp_set_max_active_levels(0)")};
  }
  if (levels_used_up()) return {1, "it is in a parallel region of OpenMP already"};
  const int limit = omp_get_thread_limit();
  if (limit == INT_MAX) return {INT_MAX, ""};
  return {limit, setting("OMP_THREAD_LIMIT", "OpenMP's limit of threads")};
}

std::string small_team_text(int asked, int got) {
  const TeamLimit limit = team_limit();
  const std::string why = limit.threads < asked ? limit.by
                          : omp_get_dynamic() != 0
                              ? "something has switched dynamic teams on (omp_set_dynamic)"
                              : "OpenMP does not say why";
  return fmt::format(
      "OpenMP gives this thread a team of {}, not of {} threads as device.threads says: {}; change "
      "that, or set device.threads = {}",
      got,
      asked,
      why,
      got);
}

bool threads_are_bound() {
  return omp_get_proc_bind() != omp_proc_bind_false && omp_get_num_places() > 0;
}

void start_team(int threads) {
  if (threads == 1) return;
  omp_set_dynamic(0);
#ifndef __SANITIZE_THREAD__  // which does not see libgomp's barriers; loops run on one thread there
  int got = 0;
  std::size_t stack = INT_MAX;
#pragma omp parallel num_threads(threads) reduction(min : stack)
  {
    set_floating_point_mode(standard_floating_point());
    if (omp_get_thread_num() == 0) {
      got = omp_get_num_threads();
    } else {
      stack = stack_bytes();
    }
  }
  if (got != threads) fail("{}", small_team_text(threads, got));
  require(stack >= kSmallestStack,
          "threads of OpenMP have stacks of {} KiB ({}), and this program needs {} KiB: unset it, "
          "or give more",
          stack / 1024,
          setting("OMP_STACKSIZE", setting("GOMP_STACKSIZE", "ulimit -s")),
          kSmallestStack / 1024);
#endif
}

void require_team(int threads) {
  if (threads == 1) return;
  require(omp_get_max_threads() == threads,
          "a library would plan for {} threads where this thread works with {}: "
          "omp_set_num_threads was called past set_parallel_threads",
          omp_get_max_threads(),
          threads);
  const TeamLimit limit{levels_used_up() ? 1 : omp_get_thread_limit(), {}};
  if (limit.threads >= threads && omp_get_dynamic() == 0) return;
  fail("{}", small_team_text(threads, std::min(limit.threads, threads - 1)));
}

}  // namespace tessera
