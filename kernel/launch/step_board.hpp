#pragma once
#include <span>

#include "tessera/types.hpp"

namespace tessera {

/// The step that each rank has begun, in memory that the launcher shares with its ranks. What a
/// rank wrote stays after its death, so the launcher knows where a rank was that had no time for a
/// word.
class StepBoard {
 public:
  /// The launcher's: zeros, and a descriptor for the ranks.
  explicit StepBoard(i64 ranks);
  /// A rank's, of the descriptor that it was started with. Empty where `descriptor` is -1, of
  /// another starter: then write() does nothing.
  StepBoard(int descriptor, i64 ranks);
  ~StepBoard();
  StepBoard(const StepBoard&) = delete;
  StepBoard& operator=(const StepBoard&) = delete;

  int descriptor() const { return descriptor_; }
  void write(i64 rank, i64 step) noexcept;
  /// 0: the rank has not begun its first step.
  i64 read(i64 rank) const;
  void clear();

 private:
  void map(i64 ranks);
  int descriptor_ = -1;
  std::span<i64> steps_;
};

}  // namespace tessera
