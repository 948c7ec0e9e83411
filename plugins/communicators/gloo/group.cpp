#include "group.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include <span>
#include <tessera/base/hash.hpp>
#include <tessera/error.hpp>

#include "exchange_task.hpp"

namespace tessera::gloo_tcp {

namespace {

// Transfers within this rank, in the order of both lists.
void copy_to_itself(const PeerExchange& part) {
  require(part.sends.size() == part.receives.size(),
          "{} sends to itself, {} receives",
          part.sends.size(),
          part.receives.size());
  for (std::size_t i = 0; i < part.sends.size(); ++i) {
    const TensorArg &from = part.sends[i], &to = part.receives[i];
    require(from.bytes() == to.bytes() && from.dtype == to.dtype,
            "{} bytes {} sent to itself, {} bytes {} expected",
            from.bytes(),
            dtype_name(from.dtype),
            to.bytes(),
            dtype_name(to.dtype));
    if (from.bytes() == 0) continue;
    std::memmove(to.address, from.address, static_cast<std::size_t>(from.bytes()));
  }
}

}  // namespace

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
    : HostGroup(device, members->spec.lane),
      members_(std::move(members)),
      queue_(members_->transport),
      next_to_(members_->spec.members.size()),
      next_from_(members_->spec.members.size()) {}

GlooGroup::~GlooGroup() {
  Transport& transport = *members_->transport;
  if (queue_.idle() && exchanges_.empty()) return;
  transport.fail({transport.arguments().rank,
                  fmt::format("{} was destroyed with collectives under way", members_->spec.name)});
  transport.quiesce();
}

HostGroup::Ticket GlooGroup::do_post(const Collective& collective) {
  Transport& transport = *members_->transport;
  const i64 rank = transport.arguments().rank;
  const auto placed = [&](Error error) {
    return error.add(ErrorFrame::Kind::collective,
                     fmt::format("rank {}, group {}: {} \"{}\"",
                                 rank,
                                 members_->spec.name,
                                 collective_name(collective.kind),
                                 collective.name.view()));
  };
  ++tickets_;
  try {
    if (collective.kind == CollectiveKind::exchange ||
        collective.kind == CollectiveKind::all_to_all) {
      post_exchange(collective);
    } else {
      auto task = make_collective_task(members_, collective, collectives_++);
      task->ticket = tickets_;
      queue_.add(std::move(task));
    }
  } catch (const Stopped& stopped) {
    transport.fail(stopped.failure);
    transport.quiesce();
    placed(stopped.failure.error(rank)).raise();
  } catch (const Error& error) {
    const Error own = placed(error);
    transport.fail({rank, own.what()});
    transport.quiesce();
    throw Error(own);
  }
  return tickets_;
}

void GlooGroup::post_exchange(const Collective& collective) {
  std::map<int, PeerExchange> parts;
  const auto part_of = [&](int peer) -> PeerExchange& {
    const auto p = static_cast<std::size_t>(peer);
    return parts.try_emplace(peer, PeerExchange{peer, {}, {}, next_to_[p], next_from_[p]})
        .first->second;
  };
  for (const Transfer& send : collective.sends) part_of(send.peer).sends.push_back(send.tensor);
  for (const Transfer& receive : collective.receives) {
    part_of(receive.peer).receives.push_back(receive.tensor);
  }
  for (auto& [peer, part] : parts) {
    if (peer == members_->index()) {
      copy_to_itself(part);
      continue;
    }
    next_to_[static_cast<std::size_t>(peer)] += part.sends.size();
    next_from_[static_cast<std::size_t>(peer)] += part.receives.size();
    exchanges_.push_back(std::make_unique<ExchangeTask>(members_, collective, part));
    exchanges_.back()->ticket = tickets_;
  }
}

void GlooGroup::do_finish(Ticket ticket) {
  require(ticket != 0, "a collective was waited for before it was posted");
  if (!wait_exchange(ticket, false)) queue_.wait(ticket);
}

void GlooGroup::do_finish_received(Ticket ticket) {
  require(ticket != 0, "a collective was waited for before it was posted");
  wait_exchange(ticket, true);
}

// Returns false where no exchange under way has this ticket.
bool GlooGroup::wait_exchange(Ticket ticket, bool received_only) {
  const auto [begin, end] = std::ranges::equal_range(
      exchanges_, ticket, {}, [](const auto& task) { return task->ticket; });
  if (begin == end) return false;
  Transport& transport = *members_->transport;
  for (const auto& task : std::ranges::subrange(begin, end)) {
    const std::optional<Error> error = attempt(
        transport, *task, [&] { received_only ? task->run_received(true) : task->run(true); });
    if (!error) continue;
    transport.quiesce();
    throw Error(*error);
  }
  if (!received_only) exchanges_.erase(begin, end);
  return true;
}

}  // namespace tessera::gloo_tcp
