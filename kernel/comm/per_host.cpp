#include "kernel/comm/per_host.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernel/comm/spanning_group.hpp"
#include "kernel/comm/store.hpp"
#include "tessera/error.hpp"

namespace tessera {

PerHostCommunicator::PerHostCommunicator(const Hosts& hosts,
                                         const CommunicatorArguments& arguments,
                                         const MakeCommunicator& make_within,
                                         const MakeCommunicator& make_between)
    : hosts_(hosts) {
  require(hosts_.world() == arguments.world,
          "the hosts of {} ranks are known, of {}",
          hosts_.world(),
          arguments.world);
  const std::vector<i64>& neighbours = hosts_.neighbours(arguments.rank);
  if (neighbours.size() > 1) {
    local_store_ = std::make_unique<StoreSection>(*arguments.store,
                                                  fmt::format("host of {}/", neighbours.front()));
    CommunicatorArguments local = arguments;
    local.rank = hosts_.local_rank(arguments.rank);
    local.world = static_cast<i64>(neighbours.size());
    local.store = local_store_.get();
    local.numbers = neighbours;
    within_ = make_within(local);
  }
  CommunicatorArguments all = arguments;
  between_ = make_between(all);
  if (within_ != nullptr && within_->memory_kind() != between_->memory_kind()) {
    fail_config(
        "communicator \"{}\", within hosts, carries tensors in memory of kind \"{}\", and \"{}\", "
        "between them, in memory of kind \"{}\": choose two for one kind",
        within_->name(),
        within_->memory_kind(),
        between_->name(),
        between_->memory_kind());
  }
  name_ = within_ == nullptr
              ? std::string(between_->name())
              : fmt::format("{} within hosts, {} between", within_->name(), between_->name());
}

PerHostCommunicator::~PerHostCommunicator() = default;

std::unique_ptr<GroupBackend> PerHostCommunicator::do_create_group(const GroupSpec& spec,
                                                                   Device& device) {
  if (within_ != nullptr && hosts_.together(spec.members)) {
    GroupSpec local = spec;
    for (i64& member : local.members) member = hosts_.local_rank(member);
    return within_->create_group(local, device);
  }
  std::unique_ptr<GroupBackend> group = between_->create_group(spec, device);
  if (group->host_group() == nullptr) return group;  // others do not block the rank's thread
  SpanningGroup::Parts parts;
  parts.within = within_;
  parts.between = between_;
  parts.all = std::move(group);
  GroupSpec near = spec;
  near.members.clear();
  const i64 self = spec.rank_of(spec.index);
  for (const i64 member : spec.members) {
    const auto beside = [&](i64 other) {
      return other != member && hosts_.together(std::array{member, other});
    };
    parts.shared_hosts = parts.shared_hosts || std::ranges::any_of(spec.members, beside);
    const auto place = static_cast<int>(near.members.size());
    if (member == self) near.index = place;
    const bool here = hosts_.together(std::array{self, member});
    parts.near_index.push_back(here ? place : -1);
    if (here) near.members.push_back(hosts_.local_rank(member));
  }
  if (near.members.size() > 1) parts.near = within_->create_group(near, device);
  return std::make_unique<SpanningGroup>(device, spec, std::move(parts));
}

std::shared_ptr<MemorySource> PerHostCommunicator::do_memory() {
  return within_ == nullptr ? nullptr : within_->memory();
}

bool PerHostCommunicator::do_progress() {
  const bool open = within_ != nullptr && within_->progress();
  return between_->progress() || open;
}

void PerHostCommunicator::do_check() {
  if (within_ != nullptr) within_->check();
  between_->check();
}

void PerHostCommunicator::do_abort(std::string_view reason) noexcept {
  // Neighbours first: that takes no network.
  if (within_ != nullptr) within_->abort(reason);
  between_->abort(reason);
}

}  // namespace tessera
