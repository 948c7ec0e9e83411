#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "kernel/schedule/orders.hpp"
#include "tessera/plan.hpp"

namespace tessera {

/// One layer's part of an order that is expanded from chunks to their layers. A whole backward pass
/// is its input half followed by its weight half.
struct LayerAction {
  Action::Kind kind = Action::F;  ///< F, Bi or Bw
  int microbatch = 0, chunk = 0;
  int layer = 0;  ///< within the chunk
  bool operator==(const LayerAction&) const = default;
};

/// The order of one rank, expanded: `layers` of each chunk. A pair (Orders::pairs) runs layer by
/// layer, forward before backward: the first layer of the one pass with the last of the other, the
/// second with the last but one, and surplus layers follow alone. Where the pair sends something to
/// another rank, it ends with the weight half of its last backward layer. This is the order in
/// which a lowered plan comes to the layers, and in which the graphs of captured layers are
/// replayed.
///
/// Source: the order that Megatron-Core's transformer/cuda_graphs.py captures in when exchanges of
/// experts overlap. It lists a pair as B, F after one warm-up forward less; here a pair is F, B,
/// and `orders` may hold either.
std::vector<LayerAction> layer_order(const Orders& orders,
                                     std::size_t rank,
                                     std::span<const int> layers);

/// Its published notation. Layers are counted from 1 over all chunks of the rank: F of layer n is
/// n, its input half -n, its weight half -n - 0.5.
double layer_number(const LayerAction& action, std::span<const int> layers);

/// Number of phases of each layer that phases `forward` (indices, in the order of the model) make
/// up. A single phase at either end, as embeddings and heads are, counts with the
/// layer next to it: it hides nothing.
std::vector<std::size_t> layer_sizes(std::span<const PhaseInfo> phases,
                                     std::span<const int> forward);

}  // namespace tessera
