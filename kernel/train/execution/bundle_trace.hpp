#pragma once
#include <vector>

#include "kernel/schedule/trace.hpp"
#include "kernel/train/data/sample_reader.hpp"
#include "kernel/train/setup/placed_model.hpp"

namespace tessera {

/// What a bundle slot holds at one point of a chunk.
struct TracedValue {
  bool defined = false, gradient = false;  ///< does it need a gradient?
  Shape shape;
  DType dtype = DType::fp32;
  const void* address = nullptr;  ///< equal for equal memory; there is no data
};

/// What the phases of one chunk find in the bundle of a microbatch and what of it they read,
/// forward and backward.
class TracedChunk {
 public:
  /// Values by bundle slot before phase `phase`; with the number of phases, after all of them.
  const std::vector<TracedValue>& before(int phase) const {
    return values_.at(static_cast<std::size_t>(phase));
  }
  /// By bundle slot: do phases `first` to `last` read, or move, what the first of them finds?
  std::vector<bool> reads(int first, int last) const;
  /// The last phase before `phase` that copies to the host; -1: none.
  int copies_before(int phase) const;
  /// Is what a bundle slot holds before phase `phase` what it held before phase `since`?
  bool unchanged(std::size_t slot, int since, int phase) const;

 private:
  friend std::vector<TracedChunk> trace_bundles(const Rank& rank,
                                                const RunSetup& setup,
                                                const std::vector<SampleReader::Input>& inputs);
  struct Bytes {
    const std::byte *begin = nullptr, *end = nullptr;
  };
  void touch(int phase, const TensorArg& tensor);

  std::vector<std::vector<TracedValue>> values_;  // by phase and bundle slot
  std::vector<std::vector<Bytes>> touched_;       // by phase
  std::vector<bool> copies_;                      // by phase: something to the host
};

/// Runs one microbatch through each chunk of this rank, forward and backward, on a dry rank like
/// it: without memory, work or messages. `inputs`: of the model, as a step loads them.
std::vector<TracedChunk> trace_bundles(const Rank& rank,
                                       const RunSetup& setup,
                                       const std::vector<SampleReader::Input>& inputs);

/// Which actions of a plan read integers back, and which wait for them: a phase that reads waits
/// for the last copy to the host before it. What is captured is copied as its graph is replayed,
/// with the first phase of its range.
std::vector<TracedReadback> readbacks_of(const Plan& plan,
                                         const std::vector<Chunk>& chunks,
                                         const std::vector<TracedChunk>& traced);

}  // namespace tessera
