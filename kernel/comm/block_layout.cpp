#include "kernel/comm/block_layout.hpp"

namespace tessera {

namespace {

constexpr i64 kAligned = 64;

bool has_input(const Collective& collective, int index) {
  return collective.kind != CollectiveKind::broadcast || collective.root == index;
}

bool is_in_place(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast;
}

}  // namespace

BlockLayout::BlockLayout(const Collective& collective, int index) {
  const bool sends = has_input(collective, index);
  offsets_.push_back(place(collective.input, sends ? sent_ : received_));
  if (collective.kind == CollectiveKind::all_reduce) received_ = sent_;
  offsets_.push_back(is_in_place(collective.kind) ? 0 : place(collective.output, received_));
  for (const Transfer& send : collective.sends) offsets_.push_back(place(send.tensor, sent_));
  for (const Transfer& receive : collective.receives) {
    offsets_.push_back(place(receive.tensor, received_));
  }
}

i64 BlockLayout::place(const TensorArg& tensor, std::vector<Run>& runs) {
  const i64 bytes = tensor.bytes();
  if (bytes == 0) return 0;
  auto* const address = tensor.as<std::byte>();
  if (!runs.empty()) {
    Run& last = runs.back();
    if (last.address + last.bytes == address && last.offset + last.bytes == bytes_) {
      last.bytes += bytes;
      bytes_ += bytes;
      return bytes_ - bytes;
    }
  }
  const i64 offset = (bytes_ + kAligned - 1) / kAligned * kAligned;
  runs.push_back({address, offset, bytes});
  bytes_ = offset + bytes;
  return offset;
}

Collective BlockLayout::moved(Collective collective, std::byte* block) const {
  auto offset = offsets_.begin();
  const auto move = [&](TensorArg& tensor) {
    if (tensor) tensor.address = block + *offset;
    ++offset;
  };
  move(collective.input);
  move(collective.output);
  for (Transfer& send : collective.sends) move(send.tensor);
  for (Transfer& receive : collective.receives) move(receive.tensor);
  return collective;
}

}  // namespace tessera
