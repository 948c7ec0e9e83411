#include <atomic>

#include "sdk/src/shared/component_call.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/device/host_comm.hpp"
#include "tessera/error.hpp"

namespace tessera {

std::string_view Communicator::name() const {
  return call_component(*this, "name", [&] { return do_name(); });
}
std::string Communicator::library() const {
  return call_component(*this, "library", [&] { return do_library(); });
}
std::string_view Communicator::memory_kind() const {
  return call_component(*this, "memory_kind", [&] { return do_memory_kind(); });
}
std::unique_ptr<GroupBackend> Communicator::create_group(const GroupSpec& spec, Device& device) {
  return call_component(*this, "create_group", [&] {
    std::unique_ptr<GroupBackend> group = do_create_group(spec, device);
    // One rank alone may need no group; that of a communicator further in knows whose it is.
    if (group != nullptr && group->identity() == nullptr) group->identify(shared_identity());
    return group;
  });
}
std::shared_ptr<MemorySource> Communicator::memory() {
  return call_component(*this, "memory", [&] { return do_memory(); });
}
bool Communicator::progress() {
  return call_component(*this, "progress", [&] { return do_progress(); });
}
void Communicator::check() {
  call_component(*this, "check", [&] { do_check(); });
}
void Communicator::abort(std::string_view reason) noexcept {
  call_component(*this, "abort", [&] { do_abort(reason); });
}

std::shared_ptr<PendingCollective> GroupBackend::start(Collective collective, Stream& after) {
  return call_component(*this, "start", [&] {
    auto started = do_start(std::move(collective), after);
    require(started != nullptr, "it started no collective");
    // The own calls of a host group say whose they are.
    const bool known = host_group() != nullptr || started->identity() != nullptr;
    if (!known) started->identify(shared_identity());
    return started;
  });
}

HostGroup::Ticket HostGroup::post(const Collective& collective) {
  // One count for all groups, since one engine may carry out several.
  static std::atomic<Ticket> last{0};
  return call_component(*this, "post", [&] {
    Posted posted{collective, ++last, {rank_, spec_, collective.kind, collective.name}};
    if (!moves_parts(collective.kind)) posted.place.number = collectives_++;
    do_post(posted);
    return posted.ticket;
  });
}
void HostGroup::finish(Ticket ticket, Until until) {
  call_component(*this, "finish", [&] {
    do_finish(ticket, until);  // a failure may be why nothing was posted
    require(ticket != 0, "a collective was waited for before it was posted");
  });
}

void PendingCollective::wait(Stream& stream) {
  call_component(*this, "wait", [&] { do_wait(stream); });
}
void PendingCollective::wait_received(Stream& stream) {
  call_component(*this, "wait_received", [&] { do_wait_received(stream); });
}
void PendingCollective::join() {
  call_component(*this, "join", [&] { do_join(); });
}

}  // namespace tessera
