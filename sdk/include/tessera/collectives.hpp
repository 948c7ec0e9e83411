#pragma once
#include <string_view>

#include "tessera/context.hpp"

/// Collectives with gradients: the conjugate pairs of tensor parallelism (Shoeybi et al. 2019, §3,
/// operators f and g). x [n, features]; scatter and gather cut the last dimension. `name` is the
/// call site, for errors and the flight recorder. On a group of one they are the identity.
namespace tessera::collectives {

/// Forward identity, backward all-reduce (pending: overlaps the weight half of what follows it).
TESSERA_API Tensor copy(Context& cx, const Tensor& x, ProcessGroup& group, std::string_view name);
/// Forward all-reduce, backward identity. Reduces in place when x was moved in and is the only
/// handle.
TESSERA_API Tensor reduce(Context& cx, Tensor x, ProcessGroup& group, std::string_view name);
/// Forward this member's part, backward all-gather.
TESSERA_API Tensor scatter(Context& cx,
                           const Tensor& x,
                           ProcessGroup& group,
                           std::string_view name);
/// Forward all-gather, backward this member's part.
TESSERA_API Tensor gather(Context& cx, const Tensor& x, ProcessGroup& group, std::string_view name);

}  // namespace tessera::collectives
