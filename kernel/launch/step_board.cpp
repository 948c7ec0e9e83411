#include "kernel/launch/step_board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "tessera/error.hpp"

namespace tessera {

StepBoard::StepBoard(i64 ranks) {
  // Ranks inherit it, so it stays open over exec.
  descriptor_ = memfd_create("tessera-steps", 0);
  require(descriptor_ >= 0, "launch: no shared memory: {}", std::strerror(errno));
  if (ftruncate(descriptor_, ranks * static_cast<off_t>(sizeof(i64))) != 0) {
    const int error = errno;
    close(descriptor_);
    fail("launch: no shared memory for {} ranks: {}", ranks, std::strerror(error));
  }
  map(ranks);
}

StepBoard::StepBoard(int descriptor, i64 ranks) {
  if (descriptor < 0) return;
  descriptor_ = descriptor;
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // what this rank starts has no use for it
  map(ranks);
}

void StepBoard::map(i64 ranks) {
  const auto bytes = static_cast<std::size_t>(ranks) * sizeof(i64);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    close(descriptor_);
    fail("launch: cannot map the board of steps: {}", std::strerror(error));
  }
  steps_ = {static_cast<i64*>(memory), static_cast<std::size_t>(ranks)};
}

StepBoard::~StepBoard() {
  if (!steps_.empty()) munmap(steps_.data(), steps_.size_bytes());
  if (descriptor_ >= 0) close(descriptor_);
}

void StepBoard::write(i64 rank, i64 step) noexcept {
  if (steps_.empty()) return;
  std::atomic_ref<i64>(steps_[static_cast<std::size_t>(rank)]).store(step);
}

i64 StepBoard::read(i64 rank) const {
  return std::atomic_ref<i64>(steps_[static_cast<std::size_t>(rank)]).load();
}

void StepBoard::clear() {
  for (i64& step : steps_) std::atomic_ref<i64>(step).store(0);
}

}  // namespace tessera
