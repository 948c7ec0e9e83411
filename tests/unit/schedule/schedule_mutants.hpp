#pragma once
#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "kernel/schedule/orders.hpp"
#include "kernel/schedule/verify.hpp"
#include "tessera/error.hpp"
#include "tests/unit/schedule/schedule_support.hpp"

namespace tessera::testing {

/// A schedule with some changes to what its ranks do for one shape; for others as it was.
class MutatedSchedule final : public PipelineSchedule {
 public:
  MutatedSchedule(std::shared_ptr<const PipelineSchedule> base,
                  PipelineShape shape,
                  std::vector<std::vector<Action>> by_rank)
      : base_(std::move(base)), shape_(shape), by_rank_(std::move(by_rank)) {}
  int do_chunks() const override { return base_->chunks(); }
  Place do_place(const PipelineShape& shape, int rank, int chunk) const override {
    return base_->place(shape, rank, chunk);
  }
  bool do_overlaps() const override { return base_->overlaps(); }
  std::vector<Action> do_order(const PipelineShape& shape) const override {
    const bool same = shape.ranks == shape_.ranks && shape.chunks == shape_.chunks &&
                      shape.microbatches == shape_.microbatches &&
                      shape.training == shape_.training;
    return same ? by_rank_.at(static_cast<std::size_t>(shape.rank)) : base_->order(shape);
  }

 private:
  std::shared_ptr<const PipelineSchedule> base_;
  PipelineShape shape_;
  std::vector<std::vector<Action>> by_rank_;
};

using Random = std::mt19937_64;
inline std::size_t below(Random& random, std::size_t n) { return random() % n; }

/// One change to one rank's order: neighbours or any two swapped, one moved, dropped, repeated, of
/// another microbatch, chunk or kind, or a backward split.
inline void mutate(std::vector<std::vector<Action>>& by_rank,
                   const PipelineShape& shape,
                   Random& random) {
  std::vector<Action>& order = by_rank[below(random, by_rank.size())];
  if (order.empty()) return;
  const std::size_t a = below(random, order.size()), b = below(random, order.size());
  const auto at = [&](std::size_t i) { return order.begin() + static_cast<std::ptrdiff_t>(i); };
  switch (below(random, 10)) {
    case 0:
    case 1:
      std::swap(order[a], order[std::min(a + 1, order.size() - 1)]);
      break;
    case 2:
      std::swap(order[a], order[b]);
      break;
    case 3: {
      const Action moved = order[a];
      order.erase(at(a));
      order.insert(at(std::min(b, order.size())), moved);
      break;
    }
    case 4:
      order.erase(at(a));
      break;
    case 5: {
      const Action again = order[a];
      order.insert(at(b), again);
      break;
    }
    case 6:
      order[a].microbatch =
          static_cast<int>(below(random, static_cast<std::size_t>(shape.microbatches)));
      break;
    case 7:
      order[a].chunk = static_cast<int>(below(random, static_cast<std::size_t>(shape.chunks)));
      break;
    case 8:
      order[a].kind = static_cast<Action::Kind>(below(random, 4));
      break;
    default:
      if (order[a].kind != Action::B) break;
      order[a].kind = Action::Bi;
      order.insert(at(a + 1 + below(random, order.size() - a)),
                   {Action::Bw, order[a].microbatch, order[a].chunk});
  }
}

inline std::vector<std::vector<Action>> mutant_orders(const PipelineSchedule& schedule,
                                                      const PipelineShape& shape,
                                                      Random& random) {
  std::vector<std::vector<Action>> by_rank = orders_of(schedule, shape).by_rank;
  for (std::size_t changes = 1 + below(random, 3); changes > 0; --changes) {
    mutate(by_rank, shape, random);
  }
  return by_rank;
}

/// `count` different mutants of a schedule for one shape, all accepted by the verifier: what they
/// compute must be what the schedule computes.
inline std::vector<std::shared_ptr<PipelineSchedule>> accepted_mutants(
    const std::shared_ptr<const PipelineSchedule>& schedule,
    const PipelineShape& shape,
    std::size_t count,
    u64 seed) {
  Random random(seed);
  std::vector<std::vector<std::vector<Action>>> seen = {orders_of(*schedule, shape).by_rank};
  std::vector<std::shared_ptr<PipelineSchedule>> mutants;
  for (int attempt = 0; attempt < 10000 && mutants.size() < count; ++attempt) {
    auto by_rank = mutant_orders(*schedule, shape, random);
    if (std::ranges::find(seen, by_rank) != seen.end()) continue;
    seen.push_back(by_rank);
    auto mutant = std::make_shared<MutatedSchedule>(schedule, shape, std::move(by_rank));
    try {
      verify(lower_all(*mutant, shape));
    } catch (const Error&) {
      continue;
    }
    mutants.push_back(std::move(mutant));
  }
  return mutants;
}

}  // namespace tessera::testing
