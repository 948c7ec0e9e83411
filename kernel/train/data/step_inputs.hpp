#pragma once
#include <array>
#include <future>
#include <vector>

#include "kernel/train/data/sample_reader.hpp"
#include "tessera/context.hpp"
#include "tessera/device/device.hpp"

namespace tessera {

/// The inputs of one step, or of one round of a validation, on the device: the loss weights of this
/// rank and all fields of all microbatches, at fixed addresses. They arrive in one asynchronous
/// copy from page-locked memory, of which there are two blocks, so that the next step's samples are
/// read by a thread of their own while this step computes.
class StepInputs {
 public:
  /// What is read: this rank's microbatches [from, from + microbatches of a step) of ordinals
  /// [first, first + count).
  struct Request {
    SampleSet set = SampleSet::train;
    i64 first = 0, count = 0;
    int from = 0;
    bool operator==(const Request&) const = default;
  };

  /// All of them outlive it. `microbatches`: of one step. `room`: microbatches that memory is taken
  /// and copied for; a dry step may have fewer.
  StepInputs(const Dataset& dataset,
             ModelParts& parts,
             const BatchShape& shape,
             const Mesh& mesh,
             Device& device,
             int microbatches,
             int room = 0);
  ~StepInputs();

  const SampleReader& reader() const { return reader_; }

  /// Enqueues the copy of what `now` asks for, read ahead or read here, and starts to read `next`
  /// in the background, where it is given. `flag` travels after the weights.
  void upload(Context& cx, const Request& now, const Request* next, i64 flag);
  /// i64 [terms + 1]: this rank's weight of each loss term, then the flag of upload(). Later work
  /// of the stream may change them.
  const Tensor& weights() const { return weights_; }
  /// i64 [1], of the same: the flag.
  Tensor flag() const { return weights_.slice(0, reader_.losses(), 1); }
  /// Bytes on the device, of one step.
  i64 bytes() const { return memory_.bytes(); }
  /// Puts the inputs of a microbatch of the step into its bundle.
  void load(int microbatch, Bundle& bundle) const;

 private:
  struct Block {
    HostBlock memory;
    Event copied;
    Request request;
    std::future<void> reading;  // valid while `request` is being read, or is there and not used
  };
  void read(Block& block, const Request& request) const;

  SampleReader reader_;
  Device& device_;
  int microbatches_;
  i64 header_;                  // bytes before the first microbatch
  Tensor memory_, weights_;     // u8 [bytes], and its beginning
  std::vector<Tensor> inputs_;  // by microbatch and input
  std::array<Block, 2> blocks_;
  std::size_t next_ = 0;
};

}  // namespace tessera
