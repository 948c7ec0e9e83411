#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// Where each rank is, in memory that the launcher shares with its ranks: the step that it has
/// begun, and its last actions. What a rank wrote stays after its death, so the launcher knows
/// where a rank was that had no time for a word. One thread of a rank writes.
class StepBoard {
 public:
  /// The launcher's: zeros, and a descriptor for the ranks.
  explicit StepBoard(i64 ranks);
  /// A rank's, of the descriptor that it was started with. Empty where `descriptor` is -1, of
  /// another starter: then nothing is written.
  StepBoard(int descriptor, i64 ranks);
  ~StepBoard();
  StepBoard(const StepBoard&) = delete;
  StepBoard& operator=(const StepBoard&) = delete;

  int descriptor() const { return descriptor_; }
  void write(i64 rank, i64 step) noexcept;
  /// An action that the rank begins, "the forward pass of layer attention"; long texts are cut.
  void write_action(i64 rank, std::string_view text) noexcept;
  /// 0: the rank has not begun its first step.
  i64 read(i64 rank) const;
  /// The last actions of a rank that has ended, at most eight, the last one last.
  std::vector<std::string> actions(i64 rank) const;
  void clear();

 private:
  struct Entry {
    i64 step = 0;
    u64 written = 0;  // actions, those overwritten included
    // A ring of texts, each ends with a zero. One more than are shown: a rank may be killed while
    // it writes the next.
    std::array<std::array<char, 112>, 9> last;
  };
  void map(i64 ranks);
  Entry& of(i64 rank) const { return entries_[static_cast<std::size_t>(rank)]; }
  int descriptor_ = -1;
  std::span<Entry> entries_;
};

}  // namespace tessera
