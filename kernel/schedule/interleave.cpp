#include "kernel/schedule/interleave.hpp"

#include <algorithm>
#include <limits>

namespace tessera {

namespace {

// One of the two passes, with how far it has come.
class Turns {
 public:
  Turns(std::span<const PhaseInfo> phases,
        std::span<const int> order,
        Action::Kind kind,
        std::vector<PairStep>& steps)
      : phases_(phases), order_(order), kind_(kind), steps_(steps) {}

  /// Puts off the weight halves of the last phases, up to weights().
  void put_weights_off() {
    constexpr std::size_t kLeast = 2;  // an embedding alone hides nothing
    for (put_off_ = order_.size(); put_off_ > 0 && !exchanges(put_off_ - 1); --put_off_) {
      const bool enough = order_.size() - put_off_ >= kLeast;
      if (enough && at(put_off_ - 1).layer != at(put_off_).layer) break;
    }
  }
  /// Runs the halves that were put off.
  void weights() {
    for (const int phase : weights_) steps_.push_back({Action::Bw, phase});
  }

  bool done() const { return next_ == order_.size() && !half_done_; }
  bool at_exchange() const { return exchanges(next_); }
  /// Runs all that is computed before the next exchange; of passes without a further one, a layer.
  void compute() {
    if (half_done_) add(Action::Bw);
    const auto from = next_;
    const auto rest = order_.subspan(from);
    const bool last = std::ranges::none_of(rest, [&](int phase) { return is_exchange(phase); });
    while (next_ < order_.size() && !at_exchange()) {
      if (last && next_ > from && at(next_).layer != at(from).layer) return;
      const bool whole = next_ < put_off_ || at(next_).graph >= 0;
      if (!whole) weights_.push_back(order_[next_]);
      whole ? add(kind_) : add_input_half();
    }
  }
  /// Starts the next exchange, if the pass has come to one.
  void exchange() {
    if (at_exchange()) add(kind_);
  }
  /// Runs the input half of the only phase before the next exchange.
  void input_half() {
    const bool only = next_ < order_.size() && !at_exchange() && exchanges(next_ + 1);
    if (only && at(next_).graph < 0) add(Action::Bi);
  }

 private:
  const PhaseInfo& at(std::size_t i) const { return phases_[static_cast<std::size_t>(order_[i])]; }
  bool is_exchange(int phase) const {
    return phases_[static_cast<std::size_t>(phase)].lane == Lane::comm;
  }
  bool exchanges(std::size_t i) const { return i < order_.size() && is_exchange(order_[i]); }
  void add(Action::Kind kind) {
    steps_.push_back({kind, order_[next_]});
    half_done_ = kind == Action::Bi;
    if (!half_done_) ++next_;
  }
  void add_input_half() { steps_.push_back({Action::Bi, order_[next_++]}); }

  std::span<const PhaseInfo> phases_;
  std::span<const int> order_;
  Action::Kind kind_;
  std::vector<PairStep>& steps_;
  std::size_t next_ = 0;
  bool half_done_ = false;  // the input half of the next phase
  std::size_t put_off_ = std::numeric_limits<std::size_t>::max();  // the first such phase
  std::vector<int> weights_;                                       // that were put off
};

}  // namespace

std::vector<PairStep> interleave(std::span<const PhaseInfo> phases,
                                 std::span<const int> forward,
                                 std::span<const int> backward,
                                 bool weights_last) {
  std::vector<PairStep> steps;
  Turns f(phases, forward, Action::F, steps), b(phases, backward, Action::B, steps);
  if (weights_last) b.put_weights_off();
  while (!f.done() || !b.done()) {
    b.compute();
    b.exchange();
    f.compute();
    if (f.at_exchange()) b.input_half();
    f.exchange();
  }
  b.weights();
  return steps;
}

}  // namespace tessera
