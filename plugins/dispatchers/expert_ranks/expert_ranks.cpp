#include "expert_ranks.hpp"

#include <algorithm>

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

std::vector<i64> ExpertRanks::balanced(i64 choices) const {
  std::vector<i64> counts(static_cast<std::size_t>(experts_), choices / experts_);
  for (i64 i = 0; i < choices % experts_; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

}  // namespace tessera
