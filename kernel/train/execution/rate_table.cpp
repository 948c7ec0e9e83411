#include "kernel/train/execution/rate_table.hpp"

#include <algorithm>
#include <span>

namespace tessera {

namespace {

constexpr i64 kBlock = 2048;

}  // namespace

RateTable::RateTable(const LrSchedule& schedule, i64 last, Device& device)
    : schedule_(schedule),
      last_(last),
      device_(device),
      block_(std::min(last, kBlock)),
      host_(device.host_block(2 * block_ * dtype_size(DType::fp64))),
      rates_(Tensor::allocate(
          device, device.pool(), device.stream(), {2 * block_}, DType::fp64, Category::optimizer)) {
  start(0);
}

void RateTable::start(i64 done) {
  device_.synchronize(device_.stream());  // no copy reads the host's rates any more
  end_ = done / block_ * block_;
  fill_block();
  fill_block();
}

void RateTable::cover(i64 done) {
  if (done + 2 > end_) fill_block();
}

// It replaces rates a whole block old: no step under way reads them, and their copy is long done.
void RateTable::fill_block() {
  const i64 place = end_ % (2 * block_), offset = place * dtype_size(DType::fp64);
  const std::span<double> rates = host_.as<double>(block_, offset);
  for (i64 i = 0; i < block_; ++i) {
    rates[static_cast<std::size_t>(i)] = of(end_ + i + 1);
  }
  device_.copy_from_host(device_.stream(), rates_.slice(0, place, block_), host_, offset);
  end_ += block_;
}

}  // namespace tessera
