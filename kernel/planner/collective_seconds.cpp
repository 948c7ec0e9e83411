#include "kernel/planner/collective_seconds.hpp"

#include <algorithm>
#include <cmath>

namespace tessera {

namespace {

double bytes_of(const Hardware& hardware, const TensorArg& tensor) {
  if (!tensor) return 0;
  return hardware.timed_bytes(tensor.dtype, tensor.bytes());
}

// The slower of what goes to neighbours and what goes to other hosts, which all ranks of a host
// send to at once.
double transfer_seconds(const Hardware& hardware,
                        std::span<const i64> members,
                        int index,
                        const Collective& collective) {
  struct Way {
    bool used = false;
    double sent = 0, received = 0;
    double seconds(const LinkTable& link) const {
      if (!used) return 0;
      return link.latency + std::max(sent, received) / (link.bandwidth * link.efficiency);
    }
  };
  const i64 me = members[static_cast<std::size_t>(index)], here = hardware.host(me);
  Way near, far;
  i64 other = me;  // of another host
  const auto add = [&](const std::vector<Transfer>& transfers, double Way::*bytes) {
    for (const Transfer& transfer : transfers) {
      if (transfer.peer == index) continue;  // no link takes part
      const i64 peer = members[static_cast<std::size_t>(transfer.peer)];
      const bool inside = hardware.host(peer) == here;
      if (!inside) other = peer;
      Way& way = inside ? near : far;
      way.used = true;
      way.*bytes += bytes_of(hardware, transfer.tensor);
    }
  };
  add(collective.sends, &Way::sent);
  add(collective.receives, &Way::received);
  const double outside = far.used ? far.seconds(hardware.ring(std::vector{me, other})) : 0;
  return std::max(near.seconds(hardware.inside), outside);
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
