#include "tessera/layer.hpp"

#include <algorithm>
#include <utility>

#include "tessera/device/device.hpp"
#include "tessera/error.hpp"

namespace tessera {

Bundle::Bundle(int tensors, int host_vectors, std::shared_ptr<HostBlocks> blocks)
    : tensors_(static_cast<std::size_t>(tensors)),
      host_(static_cast<std::size_t>(host_vectors)),
      blocks_(blocks != nullptr ? std::move(blocks) : std::make_shared<HostBlocks>()) {}

void Bundle::read_back(Context& cx, HostSlot slot, const Tensor& integers) {
  HostValues& to = host_[position(slot.index, host_.size())];
  require(integers.dtype() == DType::i64 && integers.dense(),
          "a host slot takes dense i64 integers, not {}",
          integers);
  if (cx.recomputing) return;
  to.values.clear();
  if (to.under_way == nullptr || to.under_way->bytes() != integers.bytes()) {
    to.under_way = blocks_->take(*cx.device, integers.bytes());
  }
  cx.device->copy_to_host(*cx.stream, integers, *to.under_way);
  // What is captured arrives with each replay.
  to.arrived = cx.device->capturing() ? Event() : cx.device->record(*cx.stream);
}

void Bundle::reserve_read_back(Device& device, const Bundle& warmed) {
  for (std::size_t i = 0; i < host_.size(); ++i) {
    const std::shared_ptr<HostBlock>& block = warmed.host_.at(i).under_way;
    if (block != nullptr) host_[i].under_way = blocks_->take(device, block->bytes());
  }
}

void Bundle::replayed(Stream& stream, const Bundle& captured) {
  for (std::size_t i = 0; i < host_.size(); ++i) {
    const std::shared_ptr<HostBlock>& block = captured.host_.at(i).under_way;
    if (block == nullptr) continue;
    host_[i] = {{}, block, stream.device().record(stream)};
  }
}

void Bundle::await(Device& device, HostSlot slot) {
  HostValues& of = host_[position(slot.index, host_.size())];
  if (of.under_way == nullptr) {
    require(!of.values.empty(), "nothing was read back into host slot {}", slot.index);
    return;
  }
  device.join(of.arrived, kNoDeadline, "integers that a phase reads");
  const auto arrived = of.under_way->as<i64>(of.under_way->bytes() / dtype_size(DType::i64));
  of.values.assign(arrived.begin(), arrived.end());
  of.under_way.reset();
  of.arrived = {};
}

std::shared_ptr<HostBlock> HostBlocks::take(Device& device, i64 bytes) {
  const auto found = std::ranges::find(free_, bytes, &HostBlock::bytes);
  HostBlock block = found != free_.end() ? *found : device.host_block(bytes);
  if (found != free_.end()) free_.erase(found);
  const auto give_back = [blocks = weak_from_this()](HostBlock* used) {
    const std::unique_ptr<HostBlock> owner(used);
    if (const auto home = blocks.lock()) home->free_.push_back(*used);
  };
  return {new HostBlock(std::move(block)), give_back};
}

Bundle::UnderWay::UnderWay(const UnderWay& other) { *this = other; }

Bundle::UnderWay& Bundle::UnderWay::operator=(const UnderWay& other) {
  if (this == &other) return *this;
  list.clear();
  for (const Work& work : other.list) list.push_back(work.share());
  return *this;
}

void Bundle::arrive(Stream& stream) {
  for (Work& work : under_way_.list) work.wait(stream);
  under_way_.list.clear();
}

void run_phase(const Phase& phase, Context& cx, Bundle& bundle) {
  bundle.arrive(*cx.stream);
  if (phase.skipped(cx)) return;
  for (const HostSlot slot : phase.reads) bundle.await(*cx.device, slot);
  phase.run(cx, bundle);
}

void Bundle::fail_slot(int index, std::size_t slots) {
  fail("a bundle with {} slots is asked for slot {}: {}",
       slots,
       index,
       index < 0
           ? "it is a default one; make it in the layer's constructor, with BuildContext::slot"
           : "it was made for another model chunk");
}

}  // namespace tessera
