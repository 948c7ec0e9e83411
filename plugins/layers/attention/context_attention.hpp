#pragma once
#include <string>

#include "tessera/comm.hpp"
#include "tessera/ops.hpp"

namespace tessera {

/// Self-attention over samples whose positions lie on the ranks of a context-parallel group
/// (zigzag.hpp).
struct ContextAttention {
  ops::AttentionShape shape;  ///< of this rank
  AttentionSpec spec;         ///< of whole samples
  ProcessGroup* group = nullptr;
  std::string name;  ///< of the call site
};

/// Brings queries and keys together, as ops::attention does on one rank; qkv, rows and the result
/// are of this rank's positions. README.md compares the methods; each is a file.
using ContextMethod = Tensor(Context& cx,
                             const Tensor& qkv,
                             const Tensor& rows,
                             const ContextAttention& attention);
ContextMethod ring_attention, allgather_attention, all_to_all_attention;

}  // namespace tessera
