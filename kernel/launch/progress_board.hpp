#pragma once
#include <cstddef>
#include <memory>
#include <span>

#include "sdk/src/shared/progress.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// The Progress of each rank, in memory that the launcher shares with its ranks. What a rank wrote
/// stays after its death, so the launcher knows what a rank did that had no time for a word.
class ProgressBoard {
 public:
  /// The launcher's: zeros, and a number by which the ranks find it.
  explicit ProgressBoard(i64 ranks);
  /// A rank's, by the number that it was started with; -1, of another starter: an empty one.
  ProgressBoard(int number, i64 ranks);
  ~ProgressBoard();
  ProgressBoard(const ProgressBoard&) = delete;
  ProgressBoard& operator=(const ProgressBoard&) = delete;

  int number() const { return number_; }
  /// The record of a rank; of an empty board, one that nobody else sees. The board outlives it.
  std::shared_ptr<Progress> of(i64 rank) const;
  void clear();

 private:
  void attach(i64 ranks);
  int number_ = -1;
  std::span<std::byte> memory_;
};

}  // namespace tessera
