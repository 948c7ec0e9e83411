#pragma once
#include <memory>

#include "angles.hpp"
#include "tessera/ops.hpp"

namespace tessera {

/// What happens to each head's queries and keys before they meet: norms, with the same weights for
/// all heads, then rotary positions. Each may be absent.
class Heads {
 public:
  struct Parts {
    const Component<Module>&q_norm, &k_norm;
    const Component<Rotary>& rotary;
  };

  Heads() = default;
  /// `positions`: rows of the table of angles.
  Heads(const Parts& parts, const ops::AttentionShape& shape, i64 positions, BuildContext& build);

  /// qkv [n, (heads + 2 · kv_heads) · d], changed in place where only rotary positions change it
  /// and it is the only handle.
  Tensor prepared(Context& cx, Tensor qkv, const Bundle& bundle) const;

 private:
  Tensor normed(Context& cx, const Tensor& qkv) const;

  ops::AttentionShape shape_;
  std::shared_ptr<Module> q_norm_, k_norm_;
  Slot positions_;
  Angles angles_;  ///< no table: positions turn nothing
};

}  // namespace tessera
