#include "sdk/src/direct_comm/direct_group.hpp"

#include "sdk/src/direct_comm/direct_reduce.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

i64 whole_pages(i64 bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

DirectMembers::DirectMembers(DirectState& state_, const GroupSpec& spec_)
    : state(state_), spec(spec_), next_to(spec.members.size()), next_from(spec.members.size()) {
  const i64 bytes = MemberControl::bytes(spec.size());
  void* block = state.memory->reserve(whole_pages(bytes));
  require(block != nullptr, "{}: no memory for the control block of {}", state.name, spec.name);
  Store& store = *state.arguments.store;
  const int times = ++state.groups_made[spec.id];  // one may be made again after it was destroyed
  const auto key = [&](int member) {
    return fmt::format("{}/group/{}.{}/{}", state.prefix, spec.id, times, member);
  };
  store.set(key(spec.index), fmt::format("{} {}", state.memory->token(block, bytes), spec.name));
  for (int member = 0; member < spec.size(); ++member) {
    const std::string value = store.get(key(member), state.arguments.init_timeout);
    const std::size_t space = value.find(' ');
    require(value.substr(space + 1) == spec.name,
            "{}: group #{} is {} on rank {} and {} on rank {}: ranks must create the same groups "
            "in the same order",
            state.name,
            spec.id,
            spec.name,
            state.number(),
            value.substr(space + 1),
            number_of(member));
    control.push_back(static_cast<MemberControl*>(
        state.memory->at(spec.rank_of(member), std::stoull(value.substr(0, space)), bytes)));
  }
}

u64 SharedInput::share(DirectState& state, const TensorArg& tensor) {
  const i64 bytes = tensor.bytes();
  if (bytes == 0) return 0;
  const u64 token = state.memory->token(tensor.address, bytes);
  if (token != DirectMemory::kPrivate) {
    ++state.counters.direct;
    return token;
  }
  reserved_ = whole_pages(bytes);
  copy_ = state.stage(reserved_);
  require(copy_ != nullptr, "no shared memory left to stage {} bytes", bytes);
  copy_bytes(copy_, tensor.address, bytes);
  ++state.counters.staged;
  state.counters.staged_bytes += bytes;
  return state.memory->token(copy_, bytes);
}

void SharedInput::finish(DirectState& state, const TensorArg& tensor, bool written) {
  if (copy_ == nullptr) return;
  if (written) copy_bytes(tensor.address, copy_, tensor.bytes());
  state.unstage(copy_, reserved_);
  copy_ = nullptr;
}

DirectGroup::DirectGroup(std::shared_ptr<DirectState> state, const GroupSpec& spec, Device& device)
    : HostGroup(device, spec, state->number()),
      state_(std::move(state)),
      members_(std::make_shared<DirectMembers>(*state_, spec)) {}

DirectGroup::~DirectGroup() {
  if (members_->open == 0) return;
  state_->abort(
      state_->arguments.rank,
      fmt::format(
          "rank {}: {} was destroyed with collectives under way", state_->number(), spec().name));
}

void DirectGroup::do_post(const Posted& posted) {
  state_->check();
  state_->add(moves_parts(posted.collective.kind) ? make_exchange_task(members_, posted)
                                                  : make_collective_task(members_, posted));
}

}  // namespace tessera
