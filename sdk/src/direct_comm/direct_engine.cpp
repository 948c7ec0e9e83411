#include "sdk/src/direct_comm/direct_group.hpp"
#include "tessera/device/direct_comm.hpp"
#include "tessera/error.hpp"

namespace tessera {

DirectMemory::~DirectMemory() = default;

DirectEngine::DirectEngine(std::string name,
                           const CommunicatorArguments& arguments,
                           std::shared_ptr<DirectMemory> memory)
    : state_(std::make_shared<DirectState>(std::move(name), arguments, std::move(memory))) {}

DirectEngine::~DirectEngine() = default;

std::unique_ptr<GroupBackend> DirectEngine::create_group(const GroupSpec& spec, Device& device) {
  return std::make_unique<DirectGroup>(state_, spec, device);
}

bool DirectEngine::progress() { return state_->advance(); }

void DirectEngine::abort(std::string_view reason) noexcept {
  state_->abort(state_->arguments.rank, reason);
}

const DirectEngine::Counters& DirectEngine::counters() const { return state_->counters; }

}  // namespace tessera
