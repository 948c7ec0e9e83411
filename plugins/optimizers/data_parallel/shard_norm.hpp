#pragma once
#include <vector>

#include "tessera/optimizer.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

/// The sum of squares of gradients of which each replica holds the sums of its own shards, with the
/// bits that one launch of SumSquares over all of them gives.
///
/// That launch adds blocks of kSquareBlock elements, counted from the start of each parameter. Here
/// the replica whose shard a block begins in sums it. The part of a block that lies in later
/// shards, at most kSquareBlock elements at each boundary, comes from their replicas, into the
/// gradient memory that its own sums leave free. One all-reduce brings every block to everyone, a
/// double for 8,192 gradients, and each adds them in the order of that launch.
class ShardNorm {
 public:
  explicit ShardNorm(const OptimizerArguments& arguments);
  /// out fp64 [2] += the sums of dense parameters and of experts, the same on all replicas, which
  /// all call it.
  void add(Context& cx, const Tensor& out) const;

 private:
  struct Replicas {
    ProcessGroup* group = nullptr;
    std::vector<ProcessGroup::Part> sends, receives;  ///< parts of blocks
    i64 first = 0, blocks = 0;                        ///< of all blocks, those of their parameters
  };
  void add_block(Replicas& of,
                 const ParameterBucket& bucket,
                 const FlatRange& block,
                 i64 place,
                 std::vector<i64>& own) const;

  Tensor gradients_;
  std::vector<Replicas> replicas_;  // of dense parameters, of experts
  Tensor own_;                      // i64 [n, 3]: blocks that this rank sums
  Tensor dense_, experts_;          // i64 [parameters, 2]: their blocks; undefined: none
  Tensor sums_;                     // fp64 [blocks]
};

}  // namespace tessera
