#include "shared_experts.hpp"

#include <utility>

#include "tessera/moe_ops.hpp"

namespace tessera {

SharedExperts::SharedExperts(BuildContext& build, const Options& options)
    : region_(build.tensor_region()),
      activation_(options.activation),
      slot_(build.slot("moe.shared")),
      gates_(build.slot("moe.shared_gate")) {
  const bool gated = is_gated(activation_);
  const std::vector<i64> halves = {options.ffn, options.ffn};
  up_ = &build.parameter({.name = "shared.up",
                          .shape = {gated ? 2 * options.ffn : options.ffn, options.hidden},
                          .split = {{0, Axis::tensor, gated ? halves : std::vector<i64>()}},
                          .init = Init::gaussian(options.init_std)});
  down_ = &build.parameter({.name = "shared.down",
                            .shape = {options.hidden, options.ffn},
                            .split = {{1, Axis::tensor}},
                            .init = Init::gaussian(options.output_std)});
  if (!options.gate) return;
  gate_ = &build.parameter({.name = "shared.gate",
                            .shape = {1, options.hidden},
                            .init = Init::gaussian(options.init_std),
                            .placement = region_.per_row()});
}

// sigmoid(x · gate) of all rows: [rows]. Each rank's features give a part of its gradient.
Tensor SharedExperts::gate_of(Context& cx, const Tensor& x) const {
  const Tensor logits = ops::linear(cx, x, *gate_, nullptr);
  const Tensor only = cx.empty({x.dim(0), 1}, DType::i32);
  ops::run(cx, FillArgs{only.arg(), 0});
  const Tensor own =
      ops::router_weights(cx, logits, only, {.top_k = 1, .score = RouterScore::sigmoid});
  const Tensor gates = region_.enter(cx, own);
  return ops::reshape(cx, gates, {gates.dim(0)});
}

void SharedExperts::first_half(Context& cx, Bundle& bundle) const {
  const Tensor x = std::exchange(bundle[slot_], {});
  if (gate_ != nullptr) bundle[gates_] = gate_of(cx, x);
  bundle[slot_] = region_.column(cx, x, *up_, nullptr);
}

void SharedExperts::second_half(Context& cx, Bundle& bundle) const {
  const Tensor inner = std::exchange(bundle[slot_], {});
  const Tensor gates = std::exchange(bundle[gates_], {});
  const Tensor active = ops::weighted_activation(cx, inner, gates, activation_);
  bundle[slot_] = region_.row(cx, active, *down_, nullptr);
}

Tensor SharedExperts::add_to(Context& cx, Bundle& bundle, const Tensor& y) const {
  return ops::add(cx, y, std::exchange(bundle[slot_], {}));
}

}  // namespace tessera
