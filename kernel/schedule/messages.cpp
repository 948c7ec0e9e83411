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
  int producer = 0;  // index in the order of `from`; of a pair, its last
  int microbatch = 0, stage = 0;
  bool forward = true;

  auto pair() const { return std::pair(std::min(from, to), std::max(from, to)); }
  auto key() const { return std::tuple(time, pair(), from); }
};

std::vector<Planned> messages_of(const Orders& orders, const Timeline& timeline) {
  std::vector<Planned> all;
  for (int rank = 0; rank < orders.shape.ranks; ++rank) {
    const auto& actions = orders.by_rank[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      const int to = orders.reader(rank, action);
      if (to < 0) continue;
      const bool forward = action.kind == Action::F;
      const int stage = orders.stage(rank, action.chunk);
      const auto r = static_cast<std::size_t>(rank);
      const std::size_t made = orders.pair_end(r, i);
      const double time = timeline.actions[r][made].end;
      all.push_back({time, rank, to, static_cast<int>(made), action.microbatch, stage, forward});
    }
  }
  std::ranges::sort(all, {}, &Planned::key);
  return all;
}

// Where each rank's order reads and makes what crosses, and with that where sends are released.
class Releases {
 public:
  Releases(const Orders& orders, const std::vector<Planned>& all) : orders_(orders) {
    for (std::size_t rank = 0; rank < orders.by_rank.size(); ++rank) {
      const auto& actions = orders.by_rank[rank];
      for (std::size_t i = 0; i < actions.size(); ++i) {
        const Action& action = actions[i];
        if (action.kind == Action::Bw) continue;
        const int stage = orders.stage(static_cast<int>(rank), action.chunk);
        readers_[{action.kind == Action::F, action.microbatch, stage}] = static_cast<int>(i);
      }
    }
    for (const Planned& message : all) {
      pairs_[{message.from, message.to}].push_back({&message, reader(message)});
    }
    for (auto& [pair, sent] : pairs_) {
      for (std::size_t i = sent.size(); i-- > 1;) {
        sent[i - 1].read = std::min(sent[i - 1].read, sent[i].read);
      }
    }
  }

  /// The action of its receiver's order that reads the message; the order's size where none does.
  int reader(const Planned& m) const {
    const auto found = readers_.find({m.forward, m.microbatch, m.stage + (m.forward ? 1 : -1)});
    return found == readers_.end() ? end(m.to) : found->second;
  }

  /// The action of its sender's order at which it is released.
  int release(const Planned& message) const {
    int at = end(message.from);
    if (orders_.shape.training) {
      const auto back = pairs_.find({message.to, message.from});
      if (back == pairs_.end()) return at;
      // Answers are in the order in which their sender makes them.
      const auto answer = std::ranges::lower_bound(
          back->second, reader(message), {}, [](const Sent& s) { return s.message->producer; });
      return answer == back->second.end() ? at : std::min(at, answer->read);
    }
    const auto& sent = pairs_.at({message.from, message.to});
    const auto place = std::ranges::lower_bound(sent, &message, {}, &Sent::message);
    const auto later = static_cast<std::size_t>(place - sent.begin()) + kForwardSends;
    return later < sent.size() ? sent[later].message->producer : at;
  }

 private:
  struct Sent {
    const Planned* message;  // in ascending order: one array has all
    int read;                // the first action that reads it or what its sender sends later
  };
  int end(int rank) const {
    return static_cast<int>(orders_.by_rank[static_cast<std::size_t>(rank)].size());
  }

  const Orders& orders_;
  std::map<std::tuple<bool, int, int>, int> readers_;       // by direction, microbatch, stage
  std::map<std::pair<int, int>, std::vector<Sent>> pairs_;  // from, to
};

// `messages` are those of this rank, in the one order of all.
std::vector<PlannedExchange> exchanges_of_rank(int rank,
                                               const std::vector<Span>& spans,
                                               const std::vector<const Planned*>& messages,
                                               const Releases& releases) {
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
    // An exchange is waited for as a whole, so what it receives counts, too.
    exchange.released =
        std::max(exchange.released, sends ? releases.release(*message) : releases.reader(*message));
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
  const Releases releases(orders, all);
  std::vector<std::vector<PlannedExchange>> exchanges;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    exchanges.push_back(
        exchanges_of_rank(static_cast<int>(rank), timeline.actions[rank], by_rank[rank], releases));
  }
  return exchanges;
}

}  // namespace tessera
