#include "kernel/schedule/layer_order.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/error.hpp"

namespace tessera {

namespace {

class Expansion {
 public:
  explicit Expansion(std::span<const int> layers) : layers_(layers) {}

  void add(const Action& action) {
    const int count = layers_of(action);
    for (int i = 0; i < count; ++i) {
      if (action.kind == Action::F) {
        add(action, Action::F, i);
      } else {
        backward(action, count - 1 - i);
      }
    }
  }

  void add_pair(const Action& forward, const Action& backward, bool weights_last) {
    const int down = layers_of(forward), up = layers_of(backward);
    for (int i = 0; i < std::max(down, up); ++i) {
      if (i < down) add(forward, Action::F, i);
      if (i >= up) continue;
      const int layer = up - 1 - i;
      weights_last&& layer == 0 ? add(backward, Action::Bi, layer)
                                : this->backward(backward, layer);
    }
    if (weights_last) add(backward, Action::Bw, 0);
  }

  std::vector<LayerAction> all;

 private:
  int layers_of(const Action& action) const {
    return layers_[static_cast<std::size_t>(action.chunk)];
  }
  void add(const Action& action, Action::Kind kind, int layer) {
    all.push_back({kind, action.microbatch, action.chunk, layer});
  }
  void backward(const Action& action, int layer) {
    if (action.kind != Action::Bw) add(action, Action::Bi, layer);
    if (action.kind != Action::Bi) add(action, Action::Bw, layer);
  }

  std::span<const int> layers_;
};

}  // namespace

std::vector<LayerAction> layer_order(const Orders& orders,
                                     std::size_t rank,
                                     std::span<const int> layers) {
  require(layers.size() == static_cast<std::size_t>(orders.shape.chunks),
          "layers of {} chunks are given for the {} chunks of a rank",
          layers.size(),
          orders.shape.chunks);
  const std::vector<Action>& order = orders.by_rank[rank];
  Expansion expansion(layers);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!orders.leads_pair(rank, i)) {
      expansion.add(order[i]);
      continue;
    }
    const bool forward_first = order[i].kind == Action::F;
    expansion.add_pair(order[forward_first ? i : i + 1],
                       order[forward_first ? i + 1 : i],
                       orders.pair_sends(rank, i));
    ++i;
  }
  return std::move(expansion.all);
}

double layer_number(const LayerAction& action, std::span<const int> layers) {
  const auto before = layers.first(static_cast<std::size_t>(action.chunk));
  const int number = std::accumulate(before.begin(), before.end(), action.layer + 1);
  if (action.kind == Action::F) return number;
  return action.kind == Action::Bw ? -number - 0.5 : -number;
}

std::vector<std::size_t> layer_sizes(std::span<const PhaseInfo> phases,
                                     std::span<const int> forward) {
  std::vector<std::size_t> sizes;
  int last = 0;
  for (const int phase : forward) {
    const int layer = phases[static_cast<std::size_t>(phase)].layer;
    if (sizes.empty() || layer != last) sizes.push_back(0);
    ++sizes.back();
    last = layer;
  }
  if (sizes.size() > 1 && sizes.front() == 1) {
    sizes.erase(sizes.begin());
    ++sizes.front();
  }
  if (sizes.size() > 1 && sizes.back() == 1) {
    sizes.pop_back();
    ++sizes.back();
  }
  return sizes;
}

}  // namespace tessera
