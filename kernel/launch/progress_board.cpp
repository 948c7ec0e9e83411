#include "kernel/launch/progress_board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tessera/error.hpp"

namespace tessera {

ProgressBoard::ProgressBoard(i64 ranks) {
  // Ranks inherit it, so it stays open over exec.
  descriptor_ = memfd_create("tessera-progress", 0);
  require(descriptor_ >= 0, "launch: no shared memory: {}", SystemError());
  if (ftruncate(descriptor_, ranks * static_cast<off_t>(Progress::bytes())) != 0) {
    const int error = errno;
    close(descriptor_);
    fail("launch: no shared memory for {} ranks: {}", ranks, SystemError(error));
  }
  map(ranks);
}

ProgressBoard::ProgressBoard(int descriptor, i64 ranks) {
  if (descriptor < 0) return;
  descriptor_ = descriptor;
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // what this rank starts has no use for it
  map(ranks);
}

void ProgressBoard::map(i64 ranks) {
  const auto bytes = static_cast<std::size_t>(ranks) * Progress::bytes();
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    close(descriptor_);
    fail("launch: cannot map the memory of what ranks do: {}", SystemError(error));
  }
  memory_ = {static_cast<std::byte*>(memory), bytes};
}

ProgressBoard::~ProgressBoard() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size_bytes());
  if (descriptor_ >= 0) close(descriptor_);
}

std::shared_ptr<Progress> ProgressBoard::of(i64 rank) const {
  if (memory_.empty()) return std::make_shared<Progress>();
  return std::make_shared<Progress>(memory_.data() +
                                    static_cast<std::size_t>(rank) * Progress::bytes());
}

void ProgressBoard::clear() { std::ranges::fill(memory_, std::byte{}); }

}  // namespace tessera
