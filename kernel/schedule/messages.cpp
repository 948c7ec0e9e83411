#include "kernel/schedule/messages.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "kernel/schedule/timeline.hpp"

namespace tessera {

namespace {

struct Planned {
  double time = 0;  // the value exists
  int from = 0, to = 0;
  int producer = 0;  // index in the order of `from`
  int microbatch = 0, stage = 0;
  bool forward = true;

  auto pair() const { return std::pair(std::min(from, to), std::max(from, to)); }
  auto key() const { return std::tuple(time, pair(), from); }
};

std::vector<Planned> messages_of(const Orders& orders, const Timeline& timeline) {
  std::vector<Planned> all;
  for (int rank = 0; rank < orders.shape.stages; ++rank) {
    const auto& actions = orders.by_rank[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      if (action.kind == Action::Bw) continue;
      const bool forward = action.kind == Action::F;
      const int stage = orders.stage(rank, action.chunk), next = stage + (forward ? 1 : -1);
      if (next < 0 || next > orders.last_stage()) continue;
      const int to = orders.owners[static_cast<std::size_t>(next)].rank;
      if (to == rank) continue;
      const double time = timeline.actions[static_cast<std::size_t>(rank)][i].end;
      all.push_back({time, rank, to, static_cast<int>(i), action.microbatch, stage, forward});
    }
  }
  std::ranges::sort(all, {}, &Planned::key);
  return all;
}

// `messages` are those of this rank, in the one order of all.
std::vector<PlannedExchange> exchanges_of_rank(int rank,
                                               const std::vector<Span>& spans,
                                               const std::vector<const Planned*>& messages) {
  std::vector<PlannedExchange> exchanges;
  const Planned* previous = nullptr;
  for (const Planned* message : messages) {
    const bool sends = message->from == rank;
    const bool joins = previous != nullptr && previous->time == message->time &&
                       previous->pair() == message->pair();
    if (!joins) exchanges.emplace_back();
    PlannedExchange& exchange = exchanges.back();
    const PlanAction::Message side{
        sends ? message->to : message->from, message->microbatch, message->stage, message->forward};
    (sends ? exchange.sends : exchange.receives).push_back(side);
    int before = message->producer + 1;
    if (!sends) {
      const auto later = std::ranges::lower_bound(spans, message->time, {}, &Span::start);
      before = std::max(0, static_cast<int>(later - spans.begin()) - 1);
    }
    if (exchanges.size() > 1) {
      before = std::max(before, exchanges[exchanges.size() - 2].before);
    }
    exchange.before = std::max(exchange.before, before);
    previous = message;
  }
  return exchanges;
}

}  // namespace

std::vector<std::vector<PlannedExchange>> exchanges_of(const Orders& orders) {
  const Timeline timeline = play(orders);
  const std::vector<Planned> all = messages_of(orders, timeline);
  std::vector<std::vector<const Planned*>> by_rank(orders.by_rank.size());
  for (const Planned& message : all) {
    by_rank[static_cast<std::size_t>(message.from)].push_back(&message);
    by_rank[static_cast<std::size_t>(message.to)].push_back(&message);
  }
  std::vector<std::vector<PlannedExchange>> exchanges;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    exchanges.push_back(
        exchanges_of_rank(static_cast<int>(rank), timeline.actions[rank], by_rank[rank]));
  }
  return exchanges;
}

}  // namespace tessera
