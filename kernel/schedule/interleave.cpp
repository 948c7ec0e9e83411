#include "kernel/schedule/interleave.hpp"

#include <algorithm>
#include <limits>

#include "kernel/schedule/layer_order.hpp"

namespace tessera {

namespace {

// One of the two passes, with how far it has come.
class Turns {
 public:
  /// `layers`: phases of each, in the order of the pass.
  Turns(std::span<const PhaseInfo> phases,
        std::span<const int> order,
        std::span<const std::size_t> layers,
        Action::Kind kind,
        std::vector<PairStep>& steps)
      : phases_(phases), order_(order), layers_(layers), kind_(kind), steps_(steps) {}

  /// Puts off the weight halves of the last phases, up to weights().
  void put_weights_off() {
    constexpr std::size_t kLeast = 2;  // an embedding alone hides nothing
    for (put_off_ = order_.size(); put_off_ > 0 && !is_exchange(put_off_ - 1); --put_off_) {
      const bool enough = order_.size() - put_off_ >= kLeast;
      if (enough && at(put_off_ - 1).layer != at(put_off_).layer) break;
    }
  }
  /// Runs the halves that were put off.
  void weights() {
    for (const int phase : weights_) steps_.push_back({Action::Bw, phase});
  }

  /// Lets the next layer run, too.
  void begin_layer() {
    if (layers_.empty()) return;
    end_ += layers_.front();
    layers_ = layers_.subspan(1);
  }
  /// Both count the layers that have begun.
  bool done() const { return next_ == end_; }
  std::size_t exchanges_left() const {
    std::size_t count = 0;
    for (std::size_t i = next_; i < end_; ++i) count += is_exchange(i) ? 1 : 0;
    return count;
  }
  bool at_exchange() const { return next_ < end_ && is_exchange(next_); }

  /// Runs what is computed before the next exchange. Without a further one, what is left is divided
  /// among the exchanges of the other pass: the one under way and those it has left.
  void compute(const Turns& other) {
    if (half_done_) add(Action::Bw);
    const std::size_t shares = exchanges_left() > 0 ? 1 : other.exchanges_left() + 1;
    const std::size_t end = next_ + (end_ - next_ + shares - 1) / shares;
    while (next_ < end && !at_exchange()) {
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
    const bool only = next_ + 1 < end_ && !at_exchange() && is_exchange(next_ + 1);
    if (only && at(next_).graph < 0) add(Action::Bi);
  }

 private:
  const PhaseInfo& at(std::size_t i) const { return phases_[static_cast<std::size_t>(order_[i])]; }
  bool is_exchange(std::size_t i) const { return at(i).starts_exchange; }
  void add(Action::Kind kind) {
    steps_.push_back({kind, order_[next_]});
    half_done_ = kind == Action::Bi;
    if (!half_done_) ++next_;
  }
  void add_input_half() { steps_.push_back({Action::Bi, order_[next_++]}); }

  std::span<const PhaseInfo> phases_;
  std::span<const int> order_;
  std::span<const std::size_t> layers_;  // that have not begun
  Action::Kind kind_;
  std::vector<PairStep>& steps_;
  std::size_t next_ = 0, end_ = 0;
  bool half_done_ = false;  // the input half of the next phase
  std::size_t put_off_ = std::numeric_limits<std::size_t>::max();  // the first such phase
  std::vector<int> weights_;                                       // that were put off
};

// A layer each, in turns.
void run_layers(Turns& f, Turns& b) {
  f.begin_layer();
  b.begin_layer();
  bool backward = b.exchanges_left() > 0;  // it has what the other one hides
  while (!b.done() || f.exchanges_left() > 0) {
    if (backward) {
      b.compute(f);
      b.exchange();
    } else {
      f.compute(b);
      if (f.at_exchange()) b.input_half();
      f.exchange();
    }
    backward = !backward;
  }
}

}  // namespace

std::vector<PairStep> interleave(std::span<const PhaseInfo> phases,
                                 std::span<const int> forward,
                                 std::span<const int> backward,
                                 bool weights_last) {
  const std::vector<std::size_t> down = layer_sizes(phases, forward);
  const std::vector<int> back(backward.rbegin(), backward.rend());
  std::vector<std::size_t> up = layer_sizes(phases, back);
  std::ranges::reverse(up);
  std::vector<PairStep> steps;
  Turns f(phases, forward, down, Action::F, steps), b(phases, backward, up, Action::B, steps);
  if (weights_last) b.put_weights_off();
  for (std::size_t i = 0; i < std::max(down.size(), up.size()); ++i) run_layers(f, b);
  f.compute(b);  // what follows its last exchange
  b.weights();
  return steps;
}

}  // namespace tessera
