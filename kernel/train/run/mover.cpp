#include "kernel/train/run/mover.hpp"

#include <string_view>

namespace tessera {

namespace {

// By PlanAction::Kind.
constexpr std::string_view kActions[] = {"the forward pass of layer",
                                         "the backward pass of layer",
                                         "the input half of the backward pass of layer",
                                         "the weight half of the backward pass of layer",
                                         "the recomputation of layer",
                                         "an exchange between pipeline stages",
                                         "a gather of parameters",
                                         "the preparation of a bucket",
                                         "a reduction of gradients",
                                         "the optimizer's step"};

}  // namespace

Mover::Mover(const RunSetup& setup, const std::function<void(std::string_view)>& moved)
    : moved_(moved) {
  for (const ModelLayer& layer : setup.model->layers()) layers_.push_back(layer.name);
}

void Mover::begin(std::string_view what, std::string_view of, int microbatch) {
  if (moved_) {
    text_.clear();
    fmt::format_to(fmt::appender(text_), "{}{}{}", what, of.empty() ? "" : " ", of);
    if (microbatch >= 0) fmt::format_to(fmt::appender(text_), ", microbatch {}", microbatch);
    moved_({text_.data(), text_.size()});
  }
  doing_.emplace(what, of);
}

void Mover::before(const Plan& plan, const PlanAction& action) {
  const int layer =
      action.phase < 0 ? -1 : plan.phases[static_cast<std::size_t>(action.phase)].layer;
  const std::string_view name =
      layer < 0 ? std::string_view() : layers_[static_cast<std::size_t>(layer)];
  begin(kActions[action.kind], name, action.microbatch);
}

void Mover::replaying(i64 step) {
  step_ = fmt::format("{}", step);
  begin("the replay of whole step", step_, -1);
}

}  // namespace tessera
