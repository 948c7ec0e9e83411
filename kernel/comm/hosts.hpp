#pragma once
#include <span>
#include <string>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// Which ranks share a host.
class Hosts {
 public:
  /// By rank: a text that the ranks of one host share, and nobody else.
  explicit Hosts(const std::vector<std::string>& identities);

  i64 world() const { return static_cast<i64>(host_of_.size()); }
  /// How many there are.
  i64 count() const { return static_cast<i64>(ranks_.size()); }
  /// All ranks on this rank's host, ascending.
  const std::vector<i64>& neighbours(i64 rank) const;
  /// The place of a rank among them.
  i64 local_rank(i64 rank) const;
  bool together(std::span<const i64> ranks) const;

 private:
  std::vector<std::size_t> host_of_;     // by rank; hosts by their lowest rank
  std::vector<std::vector<i64>> ranks_;  // by host
};

}  // namespace tessera
