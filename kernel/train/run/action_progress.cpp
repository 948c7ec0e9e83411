#include "kernel/train/run/action_progress.hpp"

#include <fmt/format.h>

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

ActionProgress::ActionProgress(const RunSetup& setup, Progress& progress) : progress_(progress) {
  for (const ModelLayer& layer : setup.model->layers()) layers_.push_back(layer.name);
}

void ActionProgress::before(const Plan& plan, const PlanAction& action) {
  const int layer =
      action.phase < 0 ? -1 : plan.phases[static_cast<std::size_t>(action.phase)].layer;
  const std::string_view name =
      layer < 0 ? std::string_view() : layers_[static_cast<std::size_t>(layer)];
  progress_.begin_action(kActions[action.kind], name, action.microbatch);
  doing_.emplace(kActions[action.kind], name);
}

void ActionProgress::replaying(i64 step) {
  constexpr std::string_view kReplay = "the replay of whole step";
  step_ = fmt::format("{}", step);
  progress_.begin_action(kReplay, step_);
  doing_.emplace(kReplay, step_);
}

}  // namespace tessera
