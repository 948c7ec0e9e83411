#include "kernel/schedule/orders.hpp"

#include <algorithm>
#include <exception>

#include "tessera/error.hpp"

namespace tessera {

std::string text_of(const Action& action) {
  constexpr std::string_view kNames[] = {"F", "B", "Bi", "Bw"};
  return fmt::format("{} mb{} chunk{}", kNames[action.kind], action.microbatch, action.chunk);
}

PipelineShape shape_of(const PipelineSchedule& schedule,
                       int ranks,
                       i64 microbatches,
                       bool training) {
  PipelineShape shape;
  shape.ranks = ranks;
  shape.chunks = schedule.chunks();
  shape.microbatches = static_cast<int>(microbatches);
  shape.training = training;
  // A limit, so that schedules may count what their ranks do with an int.
  constexpr i64 kMostActions = i64{1} << 24;
  const i64 passes = i64{ranks} * shape.chunks;
  if (microbatches > kMostActions / passes) {
    fail_config("{} microbatches of {} chunks on {} ranks: a schedule has at most {} of all ranks",
                microbatches,
                shape.chunks,
                ranks,
                kMostActions);
  }
  return shape;
}

namespace {

std::vector<Action> ask(const PipelineSchedule& schedule, const PipelineShape& shape) {
  try {
    return schedule.order(shape);
  } catch (const Error&) {
    throw;  // it is meant to be read as it is
  } catch (const std::exception& error) {
    fail("the schedule fails for pipeline rank {}: {}", shape.rank, error.what());
  } catch (...) {
    fail("the schedule fails for pipeline rank {}, with no std::exception", shape.rank);
  }
}

void check_exists(const Action& action, const PipelineShape& shape) {
  require(action.kind <= Action::Bw,
          "the schedule of pipeline rank {} lists an action of kind {}: kinds are 0 to {}",
          shape.rank,
          static_cast<int>(action.kind),
          static_cast<int>(Action::Bw));
  require(action.microbatch >= 0 && action.microbatch < shape.microbatches && action.chunk >= 0 &&
              action.chunk < shape.chunks,
          "the schedule lists microbatch {} of chunk {}: there are {} microbatches and {} "
          "chunks",
          action.microbatch,
          action.chunk,
          shape.microbatches,
          shape.chunks);
  require(shape.training || action.kind == Action::F,
          "the schedule lists {} in a forward-only pass",
          text_of(action));
}

// Which forwards after the warm-up are followed by a backward of another microbatch. A forward of
// the warm-up is what backwards of other ranks wait for: with one of them it would wait in a
// circle.
std::vector<bool> pairs_of(const std::vector<Action>& order, int warmup) {
  std::vector<bool> pairs(order.size());
  int forwards = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    if (order[i].kind != Action::F || ++forwards <= warmup) continue;
    pairs[i] = order[i + 1].kind == Action::B && order[i].microbatch != order[i + 1].microbatch;
  }
  return pairs;
}

}  // namespace

int Orders::reader(int rank, const Action& action) const {
  if (action.kind == Action::Bw) return -1;
  const int next = stage(rank, action.chunk) + (action.kind == Action::F ? 1 : -1);
  if (next < 0 || next > last_stage()) return -1;
  const int to = owners[static_cast<std::size_t>(next)].rank;
  return to == rank ? -1 : to;
}

bool Orders::pair_sends(std::size_t rank, std::size_t action) const {
  const auto sends = [&](std::size_t i) {
    return reader(static_cast<int>(rank), by_rank[rank][i]) >= 0;
  };
  return sends(action) || sends(action + 1);
}

Orders orders_of(const PipelineSchedule& schedule, const PipelineShape& shape) {
  Orders orders;
  orders.shape = shape;
  orders.owners.assign(
      static_cast<std::size_t>(shape.ranks) * static_cast<std::size_t>(shape.chunks), {-1, -1});
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<int>& stages = orders.stages.emplace_back();
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      const int stage = schedule.place(shape, rank, chunk).stage;
      require(stage >= 0 && stage <= orders.last_stage() &&
                  orders.owners[static_cast<std::size_t>(stage)].rank < 0,
              "the schedule puts chunk {} of pipeline rank {} at stage {}: {}",
              chunk,
              rank,
              stage,
              stage >= 0 && stage <= orders.last_stage()
                  ? "another chunk is there"
                  : fmt::format("stages are 0 to {}", orders.last_stage()));
      orders.owners[static_cast<std::size_t>(stage)] = {rank, chunk};
      stages.push_back(stage);
    }
    PipelineShape of = shape;
    of.rank = rank;
    orders.by_rank.push_back(ask(schedule, of));
    for (const Action& action : orders.by_rank.back()) check_exists(action, of);
    if (shape.training && schedule.overlaps()) {
      orders.pairs.push_back(pairs_of(orders.by_rank.back(), schedule.warmup(of)));
    }
  }
  return orders;
}

}  // namespace tessera
