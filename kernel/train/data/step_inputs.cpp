#include "kernel/train/data/step_inputs.hpp"

#include <algorithm>
#include <utility>

namespace tessera {

StepInputs::StepInputs(const Dataset& dataset,
                       ModelParts& parts,
                       const BatchShape& shape,
                       const Mesh& mesh,
                       Device& device,
                       int microbatches,
                       int room)
    : reader_(dataset, parts, shape, mesh), device_(device), microbatches_(microbatches) {
  const i64 weights = (reader_.losses() + 1) * dtype_size(DType::i64);
  constexpr i64 kAlignment = SampleReader::kAlignment;
  header_ = (weights + kAlignment - 1) / kAlignment * kAlignment;
  const i64 bytes = header_ + std::max(microbatches, room) * reader_.microbatch_bytes();
  memory_ = Tensor::allocate(
      device, device.pool(), device.stream(), {bytes}, DType::u8, Category::activations);
  weights_ = memory_.reinterpret(0, {reader_.losses() + 1}, DType::i64);
  for (int j = 0; j < microbatches; ++j) {
    const i64 begin = header_ + j * reader_.microbatch_bytes();
    for (const SampleReader::Input& input : reader_.inputs()) {
      inputs_.push_back(memory_.reinterpret(
          begin + input.offset, {values_of(input.info, shape)}, input.info.dtype));
    }
  }
  for (Block& block : blocks_) block.memory = device.host_block(bytes);
}

StepInputs::~StepInputs() = default;

void StepInputs::read(Block& block, const Request& request) const {
  const std::span<i64> weights = block.memory.as<i64>(reader_.losses() + 1);
  std::ranges::fill(weights, 0);
  reader_.read(request.set,
               request.first,
               request.count,
               request.from,
               microbatches_,
               block.memory.address() + header_,
               weights);
}

void StepInputs::upload(Context& cx, const Request& now, const Request* next, i64 flag) {
  Block& block = blocks_[next_];
  Block& other = blocks_[next_ ^= 1];
  if (block.reading.valid()) block.reading.get();
  if (block.request != now || now.count == 0) {  // nobody read ahead
    device_.join(block.copied, kNoDeadline, "the inputs of an earlier step");
    read(block, now);
  }
  block.memory.as<i64>(reader_.losses() + 1).back() = flag;
  device_.copy_from_host(*cx.stream, memory_, block.memory);
  block.copied = device_.record(*cx.stream);
  block.request = {};
  if (next == nullptr) return;
  // Done long ago: the device is at most a step behind (TrainStep waits for its statistics).
  if (!device_.query(other.copied)) {
    device_.join(other.copied, kNoDeadline, "the inputs of an earlier step");
  }
  other.request = *next;
  other.reading = std::async(std::launch::async, [this, &other] { read(other, other.request); });
}

void StepInputs::load(int microbatch, Bundle& bundle) const {
  const std::size_t count = reader_.inputs().size();
  for (std::size_t i = 0; i < count; ++i) {
    bundle[reader_.inputs()[i].slot] = inputs_[static_cast<std::size_t>(microbatch) * count + i];
  }
}

}  // namespace tessera
