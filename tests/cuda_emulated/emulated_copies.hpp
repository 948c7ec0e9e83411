#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace tessera::cuda::emulated {

/// The asynchronous copies of one thread. A GPU may do them at any time until the thread waits;
/// here they are done by the wait, and what is read before is NaN.
class AsyncCopies {
 public:
  void start(void* to, const void* from, int bytes);
  void commit();
  /// Has the thread not waited before?
  bool first_wait() { return !std::exchange(waited_, true); }
  /// Until no more than so many groups, the last ones, are on their way.
  void wait(int all_but);
  /// Throws an error of the kernel where copies are on their way: nobody knows when they arrive.
  void require_none() const;
  void clear();

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
    unsigned group;
  };
  std::vector<Copy> copies_;
  unsigned group_ = 0;  ///< of the next copy
  bool waited_ = false;
};

}  // namespace tessera::cuda::emulated
