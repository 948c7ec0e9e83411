#include "expert_ranks.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/error.hpp"

namespace tessera {

ExpertRanks::ExpertRanks(const BuildContext& build, i64 experts)
    : name_(build.scope()),
      group_(build.mesh().find_experts()),
      experts_(experts),
      local_(experts / build.mesh().size(Axis::expert)),
      parts_(build.mesh().size(Axis::expert_tensor)) {
  const Mesh& mesh = build.mesh();
  const RankGenerator& ranks = mesh.ranks();
  for (const std::vector<i64>& members : ranks.groups("etp-ep")) {
    const auto here = std::ranges::find(members, mesh.rank());
    if (here == members.end()) continue;
    index_ = static_cast<int>(here - members.begin());
    for (const i64 rank : members) {
      members_.push_back({ranks.coordinate(rank, Axis::expert) * local_,
                          ranks.coordinate(rank, Axis::expert_tensor)});
    }
  }
}

ProcessGroup& ExpertRanks::group() const {
  require(group_ != nullptr, "{}: this mesh has no communicators, nothing may run over it", name_);
  return *group_;
}

std::vector<i64> ExpertRanks::balanced(i64 choices, double imbalance) const {
  std::vector<i64> counts(static_cast<std::size_t>(experts_));
  const auto spread = [&](i64 rows, i64 among, const auto& expert_of) {
    for (i64 i = 0; i < among; ++i) {
      counts[static_cast<std::size_t>(expert_of(i))] = rows / among + (i < rows % among ? 1 : 0);
    }
  };
  if (imbalance == 1 || local_ == experts_) {
    spread(choices, experts_, [](i64 i) { return i; });
    return counts;
  }
  const double mean = static_cast<double>(choices * local_) / static_cast<double>(experts_);
  const i64 own = std::min(choices, static_cast<i64>(std::ceil(mean * imbalance)));
  spread(own, local_, [&](i64 i) { return first() + i; });
  spread(choices - own, experts_ - local_, [&](i64 i) { return i < first() ? i : i + local_; });
  return counts;
}

}  // namespace tessera
