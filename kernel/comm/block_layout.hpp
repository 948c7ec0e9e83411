#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "tessera/base/collective.hpp"

namespace tessera {

/// Where the tensors of one collective lie in a block of host memory, and what is copied between
/// the two. Tensors that follow each other in memory, as rows for several experts do, follow each
/// other in the block and are copied at once.
class BlockLayout {
 public:
  /// Bytes that are copied between `address`, of a tensor, and `offset` in the block.
  struct Run {
    std::byte* address;
    i64 offset, bytes;
  };

  /// `index`: of this member in the group.
  BlockLayout(const Collective& collective, int index);
  i64 bytes() const { return bytes_; }
  /// What the block holds before the collective is posted: this member's inputs.
  std::span<const Run> sent() const { return sent_; }
  /// What it holds once the collective is complete: this member's results.
  std::span<const Run> received() const { return received_; }
  /// `collective` with its tensors in the block.
  Collective moved(Collective collective, std::byte* block) const;

 private:
  i64 place(const TensorArg& tensor, std::vector<Run>& runs);

  std::vector<i64> offsets_;  // input, output, sends, receives
  std::vector<Run> sent_, received_;
  i64 bytes_ = 0;
};

}  // namespace tessera
