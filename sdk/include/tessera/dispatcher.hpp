#pragma once
#include "tessera/build.hpp"

namespace tessera {

/// What a router decided for the tokens of one microbatch on this rank.
struct Routing {
  Tensor experts;  ///< i64 [n, k]: global expert of each choice
  Tensor weights;  ///< [n, k]: its weight
};

/// Carries tokens to the ranks of their experts and back. Plugin kind "dispatcher". Each step is
/// differentiable and belongs to a phase of the MoE layer, in this order. State between steps lives
/// in the bundle slots that the dispatcher made in its constructor.
class TESSERA_API TokenDispatcher {
 public:
  static constexpr std::string_view kKind = "dispatcher";
  using Arguments = BuildContext;

  virtual ~TokenDispatcher();
  /// Counts and splits on the device, no host synchronisation; starts copying the splits to the
  /// bundle's host slot.
  virtual void preprocess(Context& cx, Bundle& bundle, const Routing& routing) const = 0;
  /// Tokens x [n, h] to expert ranks: result [tokens here, h], grouped by local expert.
  virtual Tensor dispatch(Context& cx, Bundle& bundle, const Tensor& x) const = 0;
  /// Device counts i64 [local experts] of the dispatched rows.
  virtual Tensor tokens_per_expert(const Bundle& bundle) const = 0;
  /// Expert results [tokens here, h] back to their owners, weighted and summed: [n, h].
  virtual Tensor combine(Context& cx, Bundle& bundle, const Tensor& y) const = 0;
};

}  // namespace tessera
