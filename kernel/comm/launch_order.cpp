#include "kernel/comm/launch_order.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/error.hpp"

namespace tessera {

namespace {

std::vector<i64> peers_of(const GroupSpec& group, const Collective& exchange) {
  std::vector<i64> peers;
  for (const auto* parts : {&exchange.sends, &exchange.receives}) {
    for (const Transfer& part : *parts) peers.push_back(group.rank_of(part.peer));
  }
  std::ranges::sort(peers);
  const auto rest = std::ranges::unique(peers);
  peers.erase(rest.begin(), rest.end());
  return peers;
}

}  // namespace

void LaunchOrder::launched(i64 rank, const GroupSpec& group, const Collective& collective) {
  std::vector<Launches>& lanes = by_rank_[rank];
  lanes.resize(kCommLanes);
  const bool exchange = collective.kind == CollectiveKind::exchange;
  if (exchange && group.lane == CommLane::exchange) return;
  groups_.try_emplace(group.id, group);
  lanes[static_cast<std::size_t>(group.lane)].push_back(
      {group.id,
       collective.kind,
       collective.name,
       exchange ? peers_of(group, collective) : std::vector<i64>()});
}

std::vector<const LaunchOrder::Launch*> LaunchOrder::shared(i64 rank, i64 other, int lane) const {
  std::map<int, bool> joins;
  std::vector<const Launch*> list;
  for (const Launch& launch : by_rank_.at(rank)[static_cast<std::size_t>(lane)]) {
    const auto [known, first] = joins.try_emplace(launch.group);
    if (first) known->second = std::ranges::count(groups_.at(launch.group).members, other) > 0;
    const bool apart =
        launch.kind == CollectiveKind::exchange && !std::ranges::binary_search(launch.with, other);
    if (known->second && !apart) list.push_back(&launch);
  }
  return list;
}

void LaunchOrder::compare(i64 a, i64 b, int lane) const {
  const std::vector<const Launch*> ours = shared(a, b, lane), theirs = shared(b, a, lane);
  const auto same = [](const Launch* x, const Launch* y) {
    return x->group == y->group && x->kind == y->kind && x->name.hash() == y->name.hash();
  };
  const auto [own, other] =
      std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end(), same);
  if (own == ours.end() && other == theirs.end()) return;
  const auto text = [&](const auto& at, const auto& list) {
    if (at == list.end()) return std::string("nothing more");
    const Launch& launch = **at;
    return fmt::format("{} \"{}\" of {}",
                       collective_name(launch.kind),
                       launch.name.view(),
                       groups_.at(launch.group).name);
  };
  fail(
      "ranks {} and {} do not launch their common collectives of lane \"{}\" in one order: as "
      "number {}, rank {} launches {}, rank {} launches {}",
      a,
      b,
      comm_lane_name(static_cast<CommLane>(lane)),
      own - ours.begin(),
      a,
      text(own, ours),
      b,
      text(other, theirs));
}

void LaunchOrder::check() const {
  for (auto a = by_rank_.begin(); a != by_rank_.end(); ++a) {
    for (auto b = std::next(a); b != by_rank_.end(); ++b) {
      for (int lane = 0; lane < kCommLanes; ++lane) compare(a->first, b->first, lane);
    }
  }
}

}  // namespace tessera
