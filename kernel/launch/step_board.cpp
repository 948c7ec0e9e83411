#include "kernel/launch/step_board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "tessera/error.hpp"
#include "tessera/utf8.hpp"

namespace tessera {

static_assert(std::atomic_ref<u64>::is_always_lock_free, "a lock would be of one process");

StepBoard::StepBoard(i64 ranks) {
  // Ranks inherit it, so it stays open over exec.
  descriptor_ = memfd_create("tessera-steps", 0);
  require(descriptor_ >= 0, "launch: no shared memory: {}", SystemError());
  if (ftruncate(descriptor_, ranks * static_cast<off_t>(sizeof(Entry))) != 0) {
    const int error = errno;
    close(descriptor_);
    fail("launch: no shared memory for {} ranks: {}", ranks, SystemError(error));
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
  const auto bytes = static_cast<std::size_t>(ranks) * sizeof(Entry);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    close(descriptor_);
    fail("launch: cannot map the board of steps: {}", SystemError(error));
  }
  entries_ = {static_cast<Entry*>(memory), static_cast<std::size_t>(ranks)};
}

StepBoard::~StepBoard() {
  if (!entries_.empty()) munmap(entries_.data(), entries_.size_bytes());
  if (descriptor_ >= 0) close(descriptor_);
}

void StepBoard::write(i64 rank, i64 step) noexcept {
  if (entries_.empty()) return;
  std::atomic_ref<i64>(of(rank).step).store(step);
}

void StepBoard::write_action(i64 rank, std::string_view text) noexcept {
  if (entries_.empty()) return;
  Entry& entry = of(rank);
  auto& slot = entry.last[entry.written % entry.last.size()];
  const std::string_view kept = cut_text(text, slot.size() - 1);
  *std::ranges::copy(kept, slot.begin()).out = 0;
  std::atomic_ref<u64>(entry.written).store(entry.written + 1);
}

i64 StepBoard::read(i64 rank) const { return std::atomic_ref<i64>(of(rank).step).load(); }

std::vector<std::string> StepBoard::actions(i64 rank) const {
  const Entry& entry = of(rank);
  const u64 written = std::atomic_ref<u64>(of(rank).written).load();
  std::vector<std::string> texts;
  for (u64 i = written - std::min<u64>(written, entry.last.size() - 1); i < written; ++i) {
    const auto& slot = entry.last[i % entry.last.size()];
    texts.emplace_back(slot.begin(), std::ranges::find(slot, 0));
  }
  return texts;
}

void StepBoard::clear() {
  for (Entry& entry : entries_) {
    std::atomic_ref<i64>(entry.step).store(0);
    std::atomic_ref<u64>(entry.written).store(0);
  }
}

}  // namespace tessera
