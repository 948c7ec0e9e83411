#pragma once
#include <string_view>

#include "tessera/context.hpp"
#include "tessera/parameter.hpp"
#include "tessera/process_group.hpp"

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

// The same along the rows, for sequence parallelism (Korthikanti et al. 2022, §4.2.2, operators g
// and ḡ): x [n, features], member i holds rows [i · n / size, (i + 1) · n / size).

/// Forward all-gather of rows, backward reduce-scatter.
TESSERA_API Tensor gather_rows(Context& cx,
                               const Tensor& x,
                               ProcessGroup& group,
                               std::string_view name);
/// Forward reduce-scatter of rows, backward all-gather.
TESSERA_API Tensor reduce_scatter_rows(Context& cx,
                                       const Tensor& x,
                                       ProcessGroup& group,
                                       std::string_view name);
/// Rows that are the same on every member: forward this member's, backward all-gather.
TESSERA_API Tensor split_rows(Context& cx,
                              const Tensor& x,
                              ProcessGroup& group,
                              std::string_view name);
/// Its inverse: forward all-gather, backward this member's rows of a gradient that all have.
TESSERA_API Tensor join_rows(Context& cx,
                             const Tensor& x,
                             ProcessGroup& group,
                             std::string_view name);
/// ops::linear(gather_rows(x)) that keeps only this member's rows of x for its weight half, which
/// gathers them again while the input half computes (ibid. §4.2.2).
TESSERA_API Tensor gathered_linear(Context& cx,
                                   const Tensor& x,
                                   Parameter& weight,
                                   Parameter* bias,
                                   ProcessGroup& group,
                                   std::string_view name);
/// This member's rows of an untracked tensor (row ids, positions), sharing memory.
TESSERA_API Tensor row_part(const Tensor& x, const ProcessGroup& group);

}  // namespace tessera::collectives
