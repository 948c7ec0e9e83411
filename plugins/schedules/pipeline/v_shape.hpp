#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <vector>

#include "steady.hpp"
#include "tessera/schedule.hpp"

namespace tessera {

/// Lists the actions of two chunks; each call takes the chunk's next microbatch. Those beyond the
/// last are counted and left out: schedules whose form needs a least number of microbatches are
/// listed for that many, and stay right without the ones that are not there.
class VOrder {
 public:
  explicit VOrder(int microbatches) : microbatches_(microbatches) {}
  void forward(int chunk) { add({Action::F, forwards_[at(chunk)]++, chunk}); }
  void backward(int chunk) { add({Action::B, backwards_[at(chunk)]++, chunk}); }
  /// The input half; its weight half waits for weight().
  void input(int chunk) {
    add({Action::Bi, backwards_[at(chunk)], chunk});
    waiting_.push_back({Action::Bw, backwards_[at(chunk)]++, chunk});
  }
  /// The weight half that waits longest: of this chunk, or of both. False: none does.
  bool weight(int chunk) {
    return weight([chunk](const Action& action) { return action.chunk == chunk; });
  }
  bool weight() {
    return weight([](const Action&) { return true; });
  }
  int forwards(int chunk) const { return forwards_[at(chunk)]; }
  std::vector<Action> actions;

 private:
  static std::size_t at(int chunk) { return static_cast<std::size_t>(chunk); }
  void add(const Action& action) {
    if (action.microbatch < microbatches_) actions.push_back(action);
  }
  template <class Wanted>
  bool weight(const Wanted& wanted) {
    const auto found = std::ranges::find_if(waiting_, wanted);
    if (found == waiting_.end()) return false;
    add(*found);
    waiting_.erase(found);
    return true;
  }

  int microbatches_;
  std::array<int, 2> forwards_{}, backwards_{};
  std::deque<Action> waiting_;
};

/// Two chunks a rank: the model goes down the ranks and up again, so the first rank has its first
/// and its last layers.
class VShape : public PipelineSchedule {
 public:
  int do_chunks() const final { return 2; }

  Place do_place(const PipelineShape& shape, int rank, int chunk) const final {
    return {chunk == 0 ? rank : 2 * shape.ranks - 1 - rank};
  }

  std::vector<Action> do_order(const PipelineShape& shape) const final {
    if (overlaps() && shape.training) check_pairs(shape);
    VOrder order(shape.microbatches);
    if (shape.training) {
      train(shape.ranks, shape.rank, shape.microbatches, order);
      return std::move(order.actions);
    }
    // As many forwards of the first chunk as pass before the first comes back, then in turn.
    const int m = shape.microbatches;
    for (int i = 0; i < std::min(m, 2 * (shape.ranks - shape.rank) - 1); ++i) order.forward(0);
    for (int i = 0; i < m; ++i) {
      order.forward(1);
      if (order.forwards(0) < m) order.forward(0);
    }
    return std::move(order.actions);
  }

  // With fewer microbatches, the passes would be in other pairs.
  static void check_pairs(const PipelineShape& shape) {
    if (shape.microbatches >= 2 * shape.ranks) return;
    fail_config(
        "schedule.overlap: {} microbatches of a step make no pairs under this schedule, it takes 2 "
        "· parallel.pipeline = {}: change batch.global or batch.micro, or take overlap away",
        shape.microbatches,
        2 * shape.ranks);
  }

 private:
  virtual void train(int ranks, int rank, int microbatches, VOrder& order) const = 0;
};

}  // namespace tessera
