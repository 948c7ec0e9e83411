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

#include "thread_order.hpp"

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

/// Bytes that a stack leaves free at its top. Stacks lie 64 KiB apart, so that all their tops would
/// share a few lines of each cache; they differ by lines instead, through a quarter of the stack.
std::size_t free_at_top() {
  thread_local std::size_t made = 0;
  return made++ * 7 * 64 % (kStack / 4);
}

}  // namespace

/// Where a fiber, or the outside, goes on, and what sanitizers know of it.
struct Fiber::Place {
  void* pointer = nullptr;  // of its stack
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  const void* stack = nullptr;
  std::size_t bytes = 0;
#elif defined(__SANITIZE_THREAD__)
  void* tsan = nullptr;
#endif
};

Fiber::Fiber() : place_(std::make_unique<Place>()) {
  void* memory = mmap(
      nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<std::byte*>(memory);
  // As if enter() had been called: six registers, its address, and no caller.
  auto* top = reinterpret_cast<void**>(stack_ + kStack - free_at_top()) - 2;
  top[0] = reinterpret_cast<void*>(&Fiber::enter);
  top[1] = nullptr;
  place_->pointer = top - 6;
#if defined(__SANITIZE_ADDRESS__)
  place_->stack = stack_;
  place_->bytes = kStack;
#elif defined(__SANITIZE_THREAD__)
  place_->tsan = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(stack_, kStack);  // of a fiber that never came to its end
#elif defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(place_->tsan);
#endif
  munmap(stack_, kStack);
}

Fiber::Place& Fiber::outside() {
  thread_local Place place;
  return place;
}

void Fiber::go(Place& from, Place& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.bytes);
#elif defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to.tsan, __tsan_switch_to_fiber_no_sync);
#endif
  tessera_switch_stack(&from.pointer, to.pointer);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

void Fiber::enter() {
#if defined(__SANITIZE_ADDRESS__)
  // The first that runs comes from outside, and learns where that stack lies.
  const bool first = outside().stack == nullptr;
  __sanitizer_finish_switch_fiber(
      nullptr, first ? &outside().stack : nullptr, first ? &outside().bytes : nullptr);
#endif
  Fiber* self;
  {
    const Unseen scope;
    self = running;
  }
  self->run();
}

void Fiber::run() {
  for (;;) give_way((*body_)());
}

void Fiber::resume() {
#if defined(__SANITIZE_THREAD__)
  outside().tsan = __tsan_get_current_fiber();
#endif
  running = this;  // run_blocks() is unseen
  go(outside(), *place_);
}

void Fiber::give_way(Fiber* next) {
  {
    const Unseen scope;
    running = next;
  }
  go(*place_, next ? *next->place_ : outside());
}

}  // namespace tessera::cuda::emulated
