#include "tessera/model.hpp"
#include "sdk/src/components/contract.hpp"
#include "sdk/src/shared/component_call.hpp"
#include "tessera/dispatcher.hpp"
#include "tessera/layer.hpp"
#include "tessera/rotary.hpp"
#include "tessera/router.hpp"

namespace tessera {

std::vector<ModelLayer> Model::layers() const {
  return call_component(*this, "layers", [&] { return do_layers(); });
}
std::shared_ptr<Layer> Model::build(int index, BuildContext& build) const {
  return call_component(*this, "build", [&] { return do_build(index, build); });
}
i64 Model::vocabulary() const {
  return call_component(
      *this, "vocabulary", [&] { return at_least(1, "the number of tokens", do_vocabulary()); });
}

std::vector<Phase> Layer::phases() {
  std::vector<Phase> phases = call_component(*this, "phases", [&] { return do_phases(); });
  if (identity() == nullptr) return phases;
  for (Phase& phase : phases) {
    if (phase.owner == nullptr) phase.owner = shared_identity();  // else it is a child's
    if (!phase.run) continue;
    phase.run = [of = identity(), scope = phase.scope, run = std::move(phase.run)](Context& cx,
                                                                                   Bundle& bundle) {
      call_component(of, scope, [&] { run(cx, bundle); });
    };
  }
  return phases;
}
void Layer::end_step(Context& e) {
  call_component(*this, "end_step", [&] { do_end_step(e); });
}

Tensor Module::operator()(Context& cx, const Tensor& x) const {
  return call_component(*this, "forward pass", [&] { return do_forward(cx, x); });
}

Routing Router::operator()(Context& cx, Bundle& bundle, const Tensor& x) const {
  return call_component(*this, "route", [&] { return do_route(cx, bundle, x); });
}
i64 Router::choices(i64 top_k) const {
  return call_component(
      *this, "choices", [&] { return at_least(1, "the number of choices", do_choices(top_k)); });
}
i64 Router::rows_per_sequence() const {
  return call_component(*this, "rows_per_sequence", [&] {
    return at_least(0, "the number of rows", do_rows_per_sequence());
  });
}
bool Router::incremental() const {
  return call_component(*this, "incremental", [&] { return do_incremental(); });
}
RotaryAngles Rotary::angles() const {
  return call_component(*this, "angles", [&] {
    RotaryAngles angles = do_angles();
    require(!angles.frequencies.empty(), "no pair of features turns");
    for (const double frequency : angles.frequencies) finite("a frequency", frequency);
    finite("the scale of cosines and sines", angles.scale);
    return angles;
  });
}
void Router::end_step(Context& e) {
  call_component(*this, "end_step", [&] { do_end_step(e); });
}

ExpertRows TokenDispatcher::preprocess(Context& cx,
                                       Bundle& bundle,
                                       const Tensor& x,
                                       const Routing& routing) const {
  return call_component(*this, "preprocess", [&] { return do_preprocess(cx, bundle, x, routing); });
}
std::vector<HostSlot> TokenDispatcher::reads() const {
  return call_component(*this, "reads", [&] { return do_reads(); });
}
Shapes TokenDispatcher::shapes() const {
  return call_component(*this, "shapes", [&] { return do_shapes(); });
}
ExpertRows TokenDispatcher::dispatch(Context& cx,
                                     Bundle& bundle,
                                     const ExpertRows& rows,
                                     const Meanwhile& meanwhile) const {
  return call_component(
      *this, "dispatch", [&] { return do_dispatch(cx, bundle, rows, meanwhile); });
}
Tensor TokenDispatcher::counts(const Bundle& bundle) const {
  return call_component(*this, "counts", [&] { return do_counts(bundle); });
}
Tensor TokenDispatcher::combine(Context& cx,
                                Bundle& bundle,
                                const Tensor& y,
                                const Meanwhile& meanwhile) const {
  return call_component(*this, "combine", [&] { return do_combine(cx, bundle, y, meanwhile); });
}
Tensor TokenDispatcher::unpermute(Context& cx, Bundle& bundle, const Tensor& y) const {
  return call_component(*this, "unpermute", [&] { return do_unpermute(cx, bundle, y); });
}

}  // namespace tessera
