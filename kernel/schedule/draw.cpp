#include "kernel/schedule/draw.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr int kCell = 5;  // characters a unit of time

int units(Action::Kind kind) { return kind == Action::B ? 2 : 1; }

std::string label(const Action& action, int chunks) {
  constexpr std::string_view kNames[] = {"F", "B", "Bi", "Bw"};
  const std::string text = fmt::format("{}{}", kNames[action.kind], action.microbatch);
  return chunks > 1 ? fmt::format("{}.{}", text, action.chunk) : text;
}

}  // namespace

std::string draw(const PipelineSchedule& schedule, const PipelineShape& shape) {
  // Forward f and backward b of (microbatch, stage) end at these times; an action starts when its
  // rank is free and its neighbour stage is done.
  std::map<std::pair<int, int>, int> forward, backward;
  const int last_stage = shape.stages * shape.chunks - 1;
  std::vector<std::vector<Action>> orders;
  std::vector<std::size_t> next(static_cast<std::size_t>(shape.stages), 0);
  std::vector<int> now(static_cast<std::size_t>(shape.stages), 0);
  std::vector<std::string> lines(static_cast<std::size_t>(shape.stages));
  for (int rank = 0; rank < shape.stages; ++rank) {
    PipelineShape of = shape;
    of.rank = rank;
    orders.push_back(schedule.order(of));
  }
  const auto ready = [&](const Action& action, int stage) -> std::optional<int> {
    const auto& table = action.kind == Action::F ? forward : backward;
    const bool first = action.kind == Action::F ? stage == 0 : stage == last_stage;
    if (action.kind == Action::Bw || first) return 0;
    const auto found =
        table.find({action.microbatch, action.kind == Action::F ? stage - 1 : stage + 1});
    return found != table.end() ? std::optional(found->second) : std::nullopt;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < shape.stages; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      while (next[r] < orders[r].size()) {
        const Action& action = orders[r][next[r]];
        const int stage = schedule.place(shape, rank, action.chunk).stage;
        const std::optional<int> start = ready(action, stage);
        if (!start) break;
        const int begin = std::max(now[r], *start);
        now[r] = begin + units(action.kind);
        lines[r].resize(static_cast<std::size_t>(begin * kCell), ' ');
        lines[r] += fmt::format("{:<{}}", label(action, shape.chunks), kCell * units(action.kind));
        if (action.kind == Action::F) forward[{action.microbatch, stage}] = now[r];
        if (action.kind == Action::B || action.kind == Action::Bi) {
          backward[{action.microbatch, stage}] = now[r];
        }
        ++next[r];
        moved = true;
      }
    }
  }
  std::string picture;
  for (int rank = 0; rank < shape.stages; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (next[r] < orders[r].size()) {
      fail("the schedule deadlocks: rank {} waits at {}",
           rank,
           label(orders[r][next[r]], shape.chunks));
    }
    lines[r].erase(lines[r].find_last_not_of(' ') + 1);
    picture += fmt::format("rank {:<2} {}\n", rank, lines[r]);
  }
  return picture;
}

}  // namespace tessera
