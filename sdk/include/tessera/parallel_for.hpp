#pragma once
#include <algorithm>
#include <type_traits>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// CPU threads that parallel_for, and libraries over OpenMP, use when called from this thread; 1
/// until set. HostDevice sets it for its rank's thread from `[device] threads`; nothing else in a
/// run does.
TESSERA_API void set_parallel_threads(int threads);
TESSERA_API int parallel_threads();

/// Another number of threads in a scope, for the calling thread.
class ParallelThreads {
 public:
  explicit ParallelThreads(int threads) : before_(parallel_threads()) {
    set_parallel_threads(threads);
  }
  ~ParallelThreads() { set_parallel_threads(before_); }
  ParallelThreads(const ParallelThreads&) = delete;
  ParallelThreads& operator=(const ParallelThreads&) = delete;

 private:
  int before_;
};

namespace detail {
TESSERA_API void parallel_run(i64 chunks, void (*body)(void* self, i64 chunk), void* self);
}

/// Calls f(begin, end) over disjoint ranges that cover [0, n), on this rank's threads, and returns
/// when all are done. Ranges are at least `grain` long (but for the last), and depend on n, grain
/// and the number of threads only. All loops of kernels go through here. f must not throw; results
/// must not depend on how the range is cut.
template <class F>
void parallel_for(i64 n, i64 grain, F&& f) {
  if (n <= 0) return;
  const i64 threads = parallel_threads();
  const i64 chunks = std::clamp<i64>(n / std::max<i64>(grain, 1), 1, threads);
  if (chunks == 1) {
    f(i64{0}, n);
    return;
  }
  struct State {
    std::remove_reference_t<F>* f;
    i64 n, chunks;
  } state{&f, n, chunks};
  detail::parallel_run(
      chunks,
      [](void* self, i64 chunk) {
        const State& s = *static_cast<State*>(self);
        (*s.f)(s.n * chunk / s.chunks, s.n * (chunk + 1) / s.chunks);
      },
      &state);
}

}  // namespace tessera
