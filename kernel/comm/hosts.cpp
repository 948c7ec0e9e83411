#include "kernel/comm/hosts.hpp"

#include <algorithm>
#include <map>

#include "tessera/error.hpp"

namespace tessera {

Hosts::Hosts(const std::vector<std::string>& identities) {
  std::map<std::string, std::size_t> known;
  for (std::size_t rank = 0; rank < identities.size(); ++rank) {
    const auto [host, added] = known.try_emplace(identities[rank], ranks_.size());
    if (added) ranks_.emplace_back();
    ranks_[host->second].push_back(static_cast<i64>(rank));
    host_of_.push_back(host->second);
  }
}

const std::vector<i64>& Hosts::neighbours(i64 rank) const {
  require(rank >= 0 && rank < world(), "hosts: there is no rank {} of {}", rank, world());
  return ranks_[host_of_[static_cast<std::size_t>(rank)]];
}

i64 Hosts::local_rank(i64 rank) const {
  const std::vector<i64>& ranks = neighbours(rank);
  return std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin();
}

bool Hosts::together(std::span<const i64> ranks) const {
  return std::ranges::all_of(
      ranks, [&](i64 rank) { return &neighbours(rank) == &neighbours(ranks.front()); });
}

}  // namespace tessera
