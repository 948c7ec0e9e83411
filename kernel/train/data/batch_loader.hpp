#pragma once
#include <vector>

#include "kernel/model/model_parts.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// Samples of a step into bundle slots. Which samples a rank gets follows DESIGN §3: microbatch j
/// of data-parallel rank d holds ordinals first + (j · dp + d) · b + [0, b). Of each sample a rank
/// keeps its context-parallel part (zigzag.hpp).
class BatchLoader {
 public:
  BatchLoader(const Dataset& dataset,
              ModelParts& parts,
              const BatchShape& shape,
              const Mesh& mesh,
              Device& device);

  /// Reads this rank's samples of ordinals [first, first + count) on the host, and returns its
  /// weight of each loss term. The last microbatch may be partly beyond `count`: such samples are
  /// masked.
  std::vector<i64> prepare(SampleSet set, i64 first, i64 count, int microbatches);
  /// Fills the input slots of a prepared microbatch: the dataset's fields, "rows" and "positions".
  void load(Context& cx, int microbatch, Bundle& bundle) const;
  /// Microbatches that each data-parallel rank needs for `count` samples.
  int microbatches(i64 count) const;

 private:
  struct Input {
    FieldInfo info;
    Slot slot;
    int loss = -1;  ///< index of the term whose mask it is
  };
  struct Buffers {
    std::vector<std::vector<u8>> fields;  // raw values, by input
    std::vector<i64> rows, positions;
  };
  Buffers read(SampleSet set, i64 first, i64 begin, i64 count);
  void read_sample(SampleSet set, i64 ordinal, const std::vector<u8*>& parts);
  /// Global position of position `local` of a sample on this rank.
  i64 position(i64 local) const;
  Tensor upload(Context& cx, DType dtype, const void* values) const;

  const Dataset& dataset_;
  BatchShape shape_;
  i64 data_ranks_, data_rank_, context_ranks_, context_rank_;
  Device& device_;
  std::vector<Input> inputs_;
  Slot rows_, positions_;
  int losses_;
  std::vector<std::vector<u8>> sample_;  // one whole sample, by input
  std::vector<Buffers> prepared_;
};

}  // namespace tessera
