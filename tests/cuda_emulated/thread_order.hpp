#pragma once
// What TSan is told of the threads of a grid. They run one after another, which would hide every
// race. So it is told of no order but that of barriers, shuffles, and the begin and end of a grid,
// and names the lines of a kernel that lack a barrier, whatever the order in which they ran.
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace tessera::cuda::emulated {

#if defined(__SANITIZE_THREAD__)

/// Who leaves sees what was done before others arrived.
struct Meeting {
  void arrive() { __tsan_release(this); }
  void leave() { __tsan_acquire(this); }
  char place = 0;
};

/// A scope of reads and writes that are not the kernel's.
struct Unseen {
  Unseen() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

#else

struct Meeting {
  void arrive() {}
  void leave() {}
};
struct Unseen {
  Unseen() {}  // not defaulted: a variable of it would be unused
};

#endif

}  // namespace tessera::cuda::emulated
