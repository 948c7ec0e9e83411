#include "tessera/parallel_for.hpp"

#include <omp.h>

#include "tessera/error.hpp"

namespace tessera {
namespace {
thread_local int rank_threads = 1;
}

void set_parallel_threads(int threads) {
  require(threads >= 1, "a rank needs at least one CPU thread, not {}", threads);
  rank_threads = threads;
  omp_set_num_threads(threads);  // for libraries called from this thread
}

int parallel_threads() { return rank_threads; }

namespace detail {

void parallel_run(i64 chunks, void (*body)(void* self, i64 chunk), void* self) {
#ifdef __SANITIZE_THREAD__
  // libgomp is not instrumented: its barriers are invisible to TSan.
  for (i64 chunk = 0; chunk < chunks; ++chunk) body(self, chunk);
#else
  // Always the same team size: a smaller team would end threads and a larger one start them again.
#pragma omp parallel for num_threads(rank_threads) schedule(static, 1)
  for (i64 chunk = 0; chunk < chunks; ++chunk) body(self, chunk);
#endif
}

}  // namespace detail
}  // namespace tessera
