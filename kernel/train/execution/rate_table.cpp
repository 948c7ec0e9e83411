#include "kernel/train/execution/rate_table.hpp"

#include <algorithm>

namespace tessera {

namespace {

constexpr i64 kBlock = 2048;

}  // namespace

RateTable::RateTable(const LrSchedule& schedule, i64 last, Device& device)
    : schedule_(schedule),
      last_(last),
      device_(device),
      block_(static_cast<std::size_t>(std::min(last, kBlock))),
      rates_(Tensor::allocate(device,
                              device.pool(),
                              device.stream(),
                              {2 * static_cast<i64>(block_.size())},
                              DType::fp64,
                              Category::optimizer)) {
  start(0);
}

void RateTable::start(i64 done) {
  const auto block = static_cast<i64>(block_.size());
  end_ = done / block * block;
  fill_block();
  fill_block();
}

void RateTable::cover(i64 done) {
  if (done + 2 > end_) fill_block();
}

// What it replaces is a whole block back: no step under way reads it.
void RateTable::fill_block() {
  const auto block = static_cast<i64>(block_.size());
  for (i64 i = 0; i < block; ++i) {
    block_[static_cast<std::size_t>(i)] = schedule_.rate(std::min(end_ + i + 1, last_));
  }
  device_.write(rates_.slice(0, end_ % (2 * block), block), block_.data());
  end_ += block;
}

}  // namespace tessera
