#pragma once
#include "tessera/ops.hpp"

namespace tessera {

/// How heads of latent attention lie. Projections have a head's fixed features before its others:
/// queries [n, heads · (fixed + rotary)], keys and values [n, heads · (fixed + value)]. In
/// attention a head's queries and keys have the features that turn first, [rotary | fixed].
struct LatentHeads {
  i64 heads = 0, fixed = 0, rotary = 0, value = 0;
  i64 head_size() const { return fixed + rotary; }
  i64 query_features() const { return heads * head_size(); }
  i64 kept_features() const { return heads * (head_size() + value); }
};

/// Rows of packed projections, [n, sections q, k, v] (ops::attention), of q [n, heads · (fixed +
/// rotary)], kv [n, heads · (fixed + value)] and the key's features that all heads share, [n,
/// rotary]. Tracked; the gradient of `shared` is summed over the heads, in fp32 where it is
/// narrower.
Tensor pack_latent_heads(
    Context& cx, const LatentHeads& heads, const Tensor& q, const Tensor& kv, const Tensor& shared);
/// The queries alone [n, heads · head_size], and keys and values alone [n, sections k, v]; both
/// untracked.
Tensor pack_latent_queries(Context& cx, const LatentHeads& heads, const Tensor& q);
Tensor pack_latent_keys(Context& cx,
                        const LatentHeads& heads,
                        const Tensor& kv,
                        const Tensor& shared);

}  // namespace tessera
