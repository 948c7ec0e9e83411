#include "tessera/parallel_for.hpp"

#include <omp.h>

#include "sdk/src/team_texts.hpp"
#include "tessera/device/floating_point_mode.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

/// How many threads a thread works with. OpenMP hears of it here only, so libraries that are called
/// from the thread use as many.
class Threads {
 public:
  // Nobody could say how large a dynamic team is.
  Threads() {
    omp_set_dynamic(0);
    set(1);
  }
  void set(int count) {
    count_ = count;
    omp_set_num_threads(count);
  }
  int count() const { return count_; }

 private:
  int count_ = 1;
};
thread_local Threads rank_threads;

}  // namespace

void set_parallel_threads(int threads) {
  require(threads >= 1, "a rank needs at least one CPU thread, not {}", threads);
  rank_threads.set(threads);
}

int parallel_threads() { return rank_threads.count(); }

namespace detail {

void parallel_run(i64 chunks, void (*body)(void* self, i64 chunk), void* self) {
#ifdef __SANITIZE_THREAD__
  // libgomp is not instrumented: its barriers are invisible to TSan.
  for (i64 chunk = 0; chunk < chunks; ++chunk) body(self, chunk);
#else
  // A region within another has a team of one.
  if (omp_in_parallel() != 0) {
    for (i64 chunk = 0; chunk < chunks; ++chunk) body(self, chunk);
    return;
  }
  // Always the same team size: a smaller team would end threads and a larger one start them again.
  const int threads = rank_threads.count();
  int team = 0;
  bool changed = false;
  FloatingPointMode left;  // of a thread whose share changed it
#pragma omp parallel num_threads(threads)
  {
    const int me = omp_get_thread_num(), got = omp_get_num_threads();
    if (me == 0) team = got;
    const FloatingPointMode before = floating_point_mode();
    for (i64 chunk = me; chunk < chunks; chunk += got) body(self, chunk);
    const FloatingPointMode after = floating_point_mode();
    if (me != 0 && after != before) {
      set_floating_point_mode(before);
#pragma omp critical(tessera_floating_point)
      {
        changed = true;
        left = after;
      }
    }
  }
  // Nobody looks at the team's threads. Of this one, guards around calls and the device see it.
  if (changed) set_floating_point_mode(left);
  // The loop is right with any team. A library that is planned for this many threads would not be.
  if (team != threads) fail("{}", small_team_text(threads, team));
#endif
}

}  // namespace detail
}  // namespace tessera
