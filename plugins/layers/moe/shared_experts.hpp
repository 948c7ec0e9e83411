#pragma once
#include "tessera/build.hpp"
#include "tessera/ops/moe.hpp"

namespace tessera {

/// An MLP that every row goes through, beside the experts that it is routed to (Dai et al. 2024,
/// "DeepSeekMoE"). Its matrices are cut over tensor ranks as those of a dense MLP. It runs in two
/// halves, each of which may run while rows are on their way to experts; what lies between is in a
/// bundle slot, so that gradients are summed in one order wherever the halves run.
class SharedExperts {
 public:
  struct Options {
    i64 hidden = 0, ffn = 0;
    Activation activation = Activation::swiglu;
    bool gate = false;  ///< the result of each row is multiplied by sigmoid(x · gate)
    double init_std = 0, output_std = 0;
  };
  SharedExperts(BuildContext& build, const Options& options);

  /// x [own rows, hidden], of between tensor regions.
  void take(Bundle& bundle, const Tensor& x) const { bundle[slot_] = x; }
  void first_half(Context& cx, Bundle& bundle) const;   ///< into the region, first matrix
  void second_half(Context& cx, Bundle& bundle) const;  ///< activation, second matrix
  /// y + result, which leaves the slot empty.
  Tensor add_to(Context& cx, Bundle& bundle, const Tensor& y) const;

 private:
  Tensor gate_of(Context& cx, const Tensor& x) const;

  TensorRegion region_;
  Activation activation_;
  Slot slot_, gates_;
  Parameter *up_, *down_, *gate_ = nullptr;
};

}  // namespace tessera
