#include "kernel/launch/progress_board.hpp"

#include <sys/ipc.h>
#include <sys/shm.h>

#include <algorithm>
#include <cerrno>

#include "tessera/error.hpp"

namespace tessera {

// Memory of System V: no limit of files counts it (ulimit -f), and it goes with the last process
// that has it attached.
ProgressBoard::ProgressBoard(i64 ranks) {
  number_ = shmget(IPC_PRIVATE, static_cast<std::size_t>(ranks) * Progress::bytes(), 0600);
  require(number_ >= 0, "launch: no shared memory for {} ranks: {}", ranks, SystemError());
  attach(ranks);
  shmctl(number_, IPC_RMID, nullptr);  // ranks may still attach it (Linux, shmctl(2))
}

ProgressBoard::ProgressBoard(int number, i64 ranks) : number_(number) {
  if (number >= 0) attach(ranks);
}

void ProgressBoard::attach(i64 ranks) {
  void* const memory = shmat(number_, nullptr, 0);
  if (memory == reinterpret_cast<void*>(-1)) {
    const int error = errno;
    shmctl(number_, IPC_RMID, nullptr);
    fail("launch: cannot attach the memory of what ranks do: {}", SystemError(error));
  }
  memory_ = {static_cast<std::byte*>(memory), static_cast<std::size_t>(ranks) * Progress::bytes()};
}

ProgressBoard::~ProgressBoard() {
  if (!memory_.empty()) shmdt(memory_.data());
}

std::shared_ptr<Progress> ProgressBoard::of(i64 rank) const {
  if (memory_.empty()) return std::make_shared<Progress>();
  return std::make_shared<Progress>(memory_.data() +
                                    static_cast<std::size_t>(rank) * Progress::bytes());
}

void ProgressBoard::clear() { std::ranges::fill(memory_, std::byte{}); }

}  // namespace tessera
