#include "group.hpp"

#include <algorithm>
#include <span>

#include <tessera/base/hash.hpp>
#include <tessera/error.hpp>

#include "exchange_task.hpp"

namespace tessera::gloo_tcp {

Members::Members(std::shared_ptr<Transport> transport_, const GroupSpec& spec_, int times)
    : transport(std::move(transport_)),
      spec(spec_),
      place_(fmt::format("{}.{}", spec.id, times)),
      hash_(hash64(fmt::format("{} {}", spec.name, place_))) {}

u64 Members::slot(Use use, u64 number, i64 begin, i64 bytes, u64 call) const {
  const u64 parts[] = {
      static_cast<u64>(use), number, static_cast<u64>(begin), static_cast<u64>(bytes), call};
  return hash64(std::as_bytes(std::span(parts)), hash_);
}

GlooGroup::GlooGroup(std::shared_ptr<const Members> members, Device& device)
    : HostGroup(device, members->spec, members->transport->number()),
      members_(std::move(members)),
      queue_(members_->transport),
      messages_(members_->spec) {}

GlooGroup::~GlooGroup() {
  Transport& transport = *members_->transport;
  if (queue_.idle() && exchanges_.empty()) return;
  transport.fail({transport.arguments().rank,
                  fmt::format("{} was destroyed with collectives under way", spec().name)});
  transport.quiesce();
}

void GlooGroup::attempt(const CollectivePlace& place, const std::function<void()>& body) {
  Transport& transport = *members_->transport;
  const std::optional<Error> error = gloo_tcp::attempt(transport, place, body);
  if (!error) return;
  transport.quiesce();
  throw Error(*error);
}

void GlooGroup::do_post(const Posted& posted) {
  attempt(posted.place, [&] {
    if (moves_parts(posted.collective.kind)) {
      auto task = std::make_unique<ExchangeTask>(members_, posted, messages_);
      if (!task->empty()) exchanges_.push_back(std::move(task));
    } else {
      queue_.add(make_collective_task(members_, posted));
    }
  });
}

void GlooGroup::do_finish(Ticket ticket, Until until) {
  const auto found =
      std::ranges::find(exchanges_, ticket, [](const auto& task) { return task->ticket; });
  if (found == exchanges_.end()) {
    if (until == Until::complete) queue_.wait(ticket);
    return;
  }
  ExchangeTask& task = **found;
  const bool all = until == Until::complete;
  attempt(task.place, [&] { all ? task.run(true) : task.run_received(true); });
  if (all) exchanges_.erase(found);
}

}  // namespace tessera::gloo_tcp
