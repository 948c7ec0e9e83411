#include <algorithm>
#include <cmath>

#include "kernel/plan/hardware.hpp"

namespace tessera {

namespace {

double bytes_of(const Hardware& hardware, const TensorArg& tensor) {
  if (!tensor) return 0;
  return hardware.timed_bytes(tensor.dtype, tensor.elements() * dtype_size(tensor.dtype));
}

}  // namespace

double timed_bytes(const Hardware& hardware, const std::vector<Transfer>& transfers) {
  double sum = 0;
  for (const Transfer& transfer : transfers) sum += bytes_of(hardware, transfer.tensor);
  return sum;
}

double collective_seconds(const Hardware& hardware,
                          std::span<const i64> members,
                          const Collective& collective) {
  const LinkTable link = hardware.ring(members);
  const double speed = link.bandwidth * link.efficiency;
  const auto n = static_cast<double>(members.size());
  const double steps = n - 1, levels = std::ceil(std::log2(n));
  const double input = bytes_of(hardware, collective.input);
  const double tree = levels * (link.latency + input / speed);  // one way
  switch (collective.kind) {
    case CollectiveKind::all_reduce:
      return std::min(2 * steps * (link.latency + input / n / speed), 2 * tree);
    case CollectiveKind::all_gather:
      return steps * (link.latency + input / speed);
    case CollectiveKind::reduce_scatter:
      return steps * (link.latency + input / n / speed);
    case CollectiveKind::broadcast:
      return std::min(2 * steps * (link.latency + input / n / speed), tree);
    case CollectiveKind::all_to_all:
    case CollectiveKind::exchange:
      return link.latency + std::max(timed_bytes(hardware, collective.sends),
                                     timed_bytes(hardware, collective.receives)) /
                                speed;
    case CollectiveKind::barrier:
      return 2 * levels * link.latency;
  }
  return 0;
}

}  // namespace tessera
