#include "fibers.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// Saves what a function must keep (System V ABI, x86-64) on the stack, the stack's pointer in
// *save, and goes on where `next` was saved. ucontext does a system call at each switch.
extern "C" void tessera_switch_stack(void** save, void* next);
asm(R"(
.text
.globl tessera_switch_stack
.hidden tessera_switch_stack
.type tessera_switch_stack, @function
tessera_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tessera_switch_stack, .-tessera_switch_stack
)");

namespace tessera::cuda::emulated {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStack = 256 * 1024;  // their frames are large
#else
constexpr std::size_t kStack = 64 * 1024;
#endif

thread_local Fiber* running = nullptr;

}  // namespace

/// Where the fiber and whoever resumed it go on, and what sanitizers know of both.
struct Fiber::Switch {
  void* inside = nullptr;
  void* outside = nullptr;
  bool returned = true;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_inside = nullptr;
  const void* outer_stack = nullptr;
  std::size_t outer_bytes = 0;
#elif defined(__SANITIZE_THREAD__)
  void* tsan_inside = __tsan_create_fiber(0);
  void* tsan_outside = nullptr;
  ~Switch() { __tsan_destroy_fiber(tsan_inside); }
#endif
};

Fiber::Fiber() : switch_(std::make_unique<Switch>()) {
  void* memory = mmap(
      nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<std::byte*>(memory);
  // As if enter() had been called: six registers, its address, and no caller.
  auto* top = reinterpret_cast<void**>(stack_ + kStack) - 2;
  top[0] = reinterpret_cast<void*>(&Fiber::enter);
  top[1] = nullptr;
  switch_->inside = top - 6;
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(stack_, kStack);  // of a fiber that never came to its end
#endif
  munmap(stack_, kStack);
}

void Fiber::enter() {
#if defined(__SANITIZE_ADDRESS__)
  Switch& self = *running->switch_;
  __sanitizer_finish_switch_fiber(nullptr, &self.outer_stack, &self.outer_bytes);
#endif
  running->run();
}

void Fiber::run() {
  for (;;) {
    (*body_)();
    switch_->returned = true;
    suspend();
  }
}

bool Fiber::resume() {
  Switch& self = *switch_;
  self.returned = false;
  running = this;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_outside = nullptr;
  __sanitizer_start_switch_fiber(&fake_outside, stack_, kStack);
#elif defined(__SANITIZE_THREAD__)
  self.tsan_outside = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(self.tsan_inside, __tsan_switch_to_fiber_no_sync);
#endif
  tessera_switch_stack(&self.outside, self.inside);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_outside, nullptr, nullptr);
#endif
  return self.returned;
}

void Fiber::suspend() {
  Switch& self = *switch_;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&self.fake_inside, self.outer_stack, self.outer_bytes);
#elif defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(self.tsan_outside, __tsan_switch_to_fiber_no_sync);
#endif
  tessera_switch_stack(&self.inside, self.outside);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(self.fake_inside, &self.outer_stack, &self.outer_bytes);
#endif
}

}  // namespace tessera::cuda::emulated
