#include "kernel/schedule/match.hpp"

#include <fmt/format.h>

#include <map>

#include "kernel/schedule/verify.hpp"

namespace tessera {

namespace {

using Pair = std::pair<int, int>;  // from, to
using Ends = std::map<Pair, std::vector<Match::End>>;

std::string text(const PlanAction::Message& message) {
  return fmt::format(
      "{} mb{} stage{}", message.forward ? "F" : "B", message.microbatch, message.stage);
}

bool same(const PlanAction::Message& a, const PlanAction::Message& b) {
  return a.forward == b.forward && a.microbatch == b.microbatch && a.stage == b.stage;
}

}  // namespace

std::vector<Match> match_messages(std::span<const Plan> plans) {
  Ends sends, receives;
  for (std::size_t r = 0; r < plans.size(); ++r) {
    const int rank = static_cast<int>(r);
    for (std::size_t i = 0; i < plans[r].actions.size(); ++i) {
      const PlanAction& action = plans[r].actions[i];
      const auto list = [&](const std::vector<PlanAction::Message>& messages, bool out) {
        for (std::size_t m = 0; m < messages.size(); ++m) {
          const int peer = messages[m].peer;
          if (peer < 0 || peer >= static_cast<int>(plans.size())) {
            reject(plans[r], i, fmt::format("names rank {}, which does not exist", peer));
          }
          (out ? sends[{rank, peer}] : receives[{peer, rank}]).push_back({i, m});
        }
      };
      list(action.sends, true);
      list(action.receives, false);
    }
  }
  std::vector<Match> matches;
  for (const auto& [pair, ends] : sends) {
    const auto& [from, to] = pair;
    const Plan& sender = plans[static_cast<std::size_t>(from)];
    const Plan& receiver = plans[static_cast<std::size_t>(to)];
    std::vector<Match::End>& others = receives[pair];
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const PlanAction::Message& sent = sender.actions[ends[i].action].sends[ends[i].message];
      if (i >= others.size()) {
        reject(sender, ends[i].action, fmt::format("sends what rank {} never receives", to));
      }
      const PlanAction::Message& received =
          receiver.actions[others[i].action].receives[others[i].message];
      if (!same(sent, received)) {
        reject(sender,
               ends[i].action,
               fmt::format("sends {} as message {} to rank {}, which receives {} there (action {})",
                           text(sent),
                           i,
                           to,
                           text(received),
                           others[i].action));
      }
      matches.push_back({from, to, ends[i], others[i]});
    }
  }
  for (const auto& [pair, ends] : receives) {
    const std::size_t sent = sends[pair].size();
    if (ends.size() > sent) {
      reject(plans[static_cast<std::size_t>(pair.second)],
             ends[sent].action,
             fmt::format("receives what rank {} never sends", pair.first));
    }
  }
  return matches;
}

}  // namespace tessera
