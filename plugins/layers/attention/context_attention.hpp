#pragma once
#include <string>

#include "tessera/ops.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

/// The call sites of its collectives, for errors and the flight recorder: texts that are made when
/// the layer is built.
struct ContextNames {
  explicit ContextNames(const std::string& scope)
      : layer(scope),
        keys(scope + ".keys"),
        key_gradients(scope + ".key_gradients"),
        heads(scope + ".heads"),
        rows(scope + ".heads.rows"),
        first(scope + ".heads.first"),
        last(scope + ".heads.last"),
        positions(scope + ".positions") {}
  std::string layer;
  std::string keys, key_gradients;                  ///< ring, allgather
  std::string heads, rows, first, last, positions;  ///< all_to_all
};

/// Self-attention over samples whose positions lie on the ranks of a context-parallel group
/// (zigzag.hpp).
struct ContextAttention {
  ops::AttentionShape shape;    ///< of this rank
  AttentionSpec spec;           ///< of whole samples
  ops::AttentionLimits limits;  ///< of this rank's queries
  ProcessGroup* group = nullptr;
  const ContextNames* names = nullptr;  ///< both live as long as the layer
};

/// Brings queries and keys together, as ops::attention does on one rank; qkv, rows and the result
/// are of this rank's positions. README.md compares the methods; each is a file.
using ContextMethod = Tensor(Context& cx,
                             const Tensor& qkv,
                             const Tensor& rows,
                             const ContextAttention& attention);
ContextMethod ring_attention, allgather_attention, all_to_all_attention;

}  // namespace tessera
