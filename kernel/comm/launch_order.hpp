#pragma once
#include <map>
#include <vector>

#include "tessera/process_group.hpp"

namespace tessera {

/// What ranks launch, in order, by lane. On a device whose lanes are streams, two ranks that share
/// several groups of a lane must launch the collectives of these groups in one order: otherwise
/// each waits, on its stream, for what the other launches later. Fed by `simulated` groups.
///
/// An exchange concerns the ranks that it has parts for. Those of lane `exchange` are not here: the
/// verifier of plans matches and plays them.
class LaunchOrder {
 public:
  void launched(i64 rank, const GroupSpec& group, const Collective& collective);
  /// Throws Error naming two ranks and the first collectives in which they differ.
  void check() const;

 private:
  struct Launch {
    int group;
    CollectiveKind kind;
    CallName name;
    std::vector<i64> with;  // an exchange's peers, ascending
  };
  using Launches = std::vector<Launch>;
  std::vector<const Launch*> shared(i64 rank, i64 other, int lane) const;
  void compare(i64 a, i64 b, int lane) const;

  std::map<int, GroupSpec> groups_;  // by id
  std::map<i64, std::vector<Launches>> by_rank_;
};

}  // namespace tessera
