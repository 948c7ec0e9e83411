#pragma once
#include "tessera/build.hpp"

namespace tessera {

/// What a router decided for the rows of one microbatch on this rank.
struct Routing {
  /// i32 [n, k]: the expert of each choice, in the order in which results are summed. One outside
  /// [0, experts) means that the choice is dropped: the token gets nothing for it.
  Tensor experts;
  Tensor weights;  ///< [n, k], fp32 or wider, tracked: the weight of each choice
};

/// Chooses experts for rows. Plugin kind "router". The layer that has experts gives its fields:
/// `hidden`, `experts`, `top_k`. A router declares its own parameters, which are applied to split
/// rows (TensorRegion::per_split_row).
class TESSERA_API Router {
 public:
  static constexpr std::string_view kKind = "router";
  using Arguments = BuildContext;

  virtual ~Router();
  /// x [n, hidden]: rows of this rank; under tensor parallelism each rank of the group has others.
  virtual Routing operator()(Context& cx, Bundle& bundle, const Tensor& x) const = 0;
};

}  // namespace tessera
