#include <algorithm>
#include <cmath>

#include "kernel/plan/hardware.hpp"

namespace tessera {

namespace {

double bytes_of(const Hardware& hardware, const TensorArg& tensor) {
  if (!tensor) return 0;
  return hardware.timed_bytes(tensor.dtype, tensor.elements() * dtype_size(tensor.dtype));
}

// The slower of what goes to neighbours and what goes to other hosts, which all ranks of a host
// send to at once.
double transfer_seconds(const Hardware& hardware,
                        std::span<const i64> members,
                        int index,
                        const Collective& collective) {
  const i64 here = hardware.host(members[static_cast<std::size_t>(index)]);
  double seconds = 0;
  for (const bool near : {true, false}) {
    LinkTable link = hardware.inside;
    bool any = false;
    const auto bytes = [&](const std::vector<Transfer>& transfers) {
      double sum = 0;
      for (const Transfer& transfer : transfers) {
        const i64 peer = members[static_cast<std::size_t>(transfer.peer)];
        if ((hardware.host(peer) == here) != near) continue;
        any = true;
        if (!near)
          link = hardware.ring(std::vector{members[static_cast<std::size_t>(index)], peer});
        sum += bytes_of(hardware, transfer.tensor);
      }
      return sum;
    };
    const double most = std::max(bytes(collective.sends), bytes(collective.receives));
    if (any) seconds = std::max(seconds, link.latency + most / (link.bandwidth * link.efficiency));
  }
  return seconds;
}

}  // namespace

double timed_bytes(const Hardware& hardware, const std::vector<Transfer>& transfers) {
  double sum = 0;
  for (const Transfer& transfer : transfers) sum += bytes_of(hardware, transfer.tensor);
  return sum;
}

double collective_seconds(const Hardware& hardware,
                          std::span<const i64> members,
                          int index,
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
      return transfer_seconds(hardware, members, index, collective);
    case CollectiveKind::barrier:
      return 2 * levels * link.latency;
  }
  return 0;
}

}  // namespace tessera
