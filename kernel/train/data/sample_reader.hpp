#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kernel/model/data_inputs.hpp"
#include "kernel/model/model_parts.hpp"
#include "kernel/train/data/sample_check.hpp"
#include "tessera/data.hpp"
#include "tessera/mesh.hpp"

namespace tessera {

/// Reads samples into host memory. Microbatch j of data-parallel rank d holds ordinals
/// first + (j · dp + d) · b + [0, b). Of each sample a rank keeps its context-parallel part
/// (zigzag.hpp), of fields that have no value for each token all. Any thread may read.
///
/// A microbatch is one piece of memory: the values of each input, one after the other, from
/// multiples of kAlignment on.
class SampleReader {
 public:
  static constexpr i64 kAlignment = 64;

  /// One of DataInputs. Fields that no layer of this rank reads are not among them.
  struct Input {
    FieldInfo info;
    Slot slot;
    i64 offset = 0;  ///< of its values within a microbatch, in bytes
  };

  /// Throws ConfigError when a loss of the model has no mask in the dataset.
  SampleReader(const Dataset& dataset,
               ModelParts& parts,
               const BatchShape& shape,
               const Mesh& mesh);

  const std::vector<Input>& inputs() const { return inputs_; }
  const BatchShape& shape() const { return shape_; }
  i64 microbatch_bytes() const { return microbatch_bytes_; }
  int losses() const { return static_cast<int>(losses_.size()); }
  /// Global position of position `local` of a sample on this rank.
  i64 position(i64 local) const;
  /// Microbatches that each data-parallel rank needs for `count` samples.
  int microbatches(i64 count) const;

  /// Reads this rank's part of ordinals [first, first + count): microbatches [from, from + n) to
  /// `to`, n · microbatch_bytes() bytes. Samples beyond `count` are masked. Adds this rank's weight
  /// of each loss term to `weights`.
  void read(SampleSet set,
            i64 first,
            i64 count,
            int from,
            int n,
            std::byte* to,
            std::span<i64> weights) const;

 private:
  SampleReader(const Dataset& dataset,
               ModelParts& parts,
               const BatchShape& shape,
               const Mesh& mesh,
               DataInputs from);
  void find_masks(const ModelParts& parts);
  void read_microbatch(SampleSet set,
                       i64 first,
                       i64 count,
                       int microbatch,
                       std::byte* to,
                       std::span<i64> weights) const;
  void weigh(std::size_t term, std::byte* mask, bool real, i64& weight) const;
  /// What a sample adds on this rank to the weights of terms that no field weights.
  void add_sample(std::span<i64> weights) const;
  void read_whole(SampleSet set, i64 ordinal, const SampleBuffers& out) const;
  /// `parts`: of each source, where this rank's part of the sample goes; nullptr: nobody reads it.
  void read_sample(SampleSet set, i64 ordinal, const std::vector<std::byte*>& parts) const;
  std::byte* place(int input, i64 sample, std::byte* microbatch) const;

  const Dataset& dataset_;
  BatchShape shape_;
  i64 data_ranks_, data_rank_, context_ranks_, context_rank_;
  DataInputs from_;
  std::vector<Input> inputs_;
  i64 microbatch_bytes_ = 0;
  SampleCheck check_;
  std::vector<LossWeight> losses_;  // what each term is weighted by
  std::vector<int> masks_;          // the input whose sum that is; -1: none
};

/// The first term of the run's loss that is no mean over a mask of the data; empty: there is none.
/// Samples that fill up the last batch of a validation have such a loss, which nothing takes out.
std::string unmasked_loss(const ModelParts& parts);

}  // namespace tessera
