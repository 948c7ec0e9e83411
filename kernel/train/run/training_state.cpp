#include "kernel/train/run/training_state.hpp"

#include "kernel/config/structure.hpp"
#include "kernel/model/initialize.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

std::string name_of(const NamedState& state) {
  return fmt::format("{}/{}", state.parameter->name, state.name);
}

}  // namespace

std::vector<CheckpointTensor> parameter_tensors(const PlacedModel& model) {
  std::vector<CheckpointTensor> tensors;
  for (const ModelParts::Entry& entry : model.parts().parameters()) {
    const Parameter& p = *entry.parameter;
    const OwnedValues main = owned_values(model.memory(), p);
    const bool all = model.memory().has_all_main();
    tensors.push_back({p.name,
                       &p,
                       main.range,
                       main.values,
                       all ? StateHolders::every_replica : StateHolders::this_rank});
  }
  for (const auto& buffer : model.parts().buffers()) {
    if (!buffer->saved) continue;
    const i64 elements = buffer->local.elements();
    tensors.push_back({buffer->name, buffer.get(), {0, elements}, buffer->value.view({elements})});
  }
  return tensors;
}

std::vector<CheckpointTensor> TrainingState::tensors() const {
  std::vector<CheckpointTensor> tensors = parameter_tensors(model_);
  for (const NamedState& state : step_.optimizer().state()) {
    tensors.push_back(
        {name_of(state), &state.tensor_of(), state.range, state.tensor, state.holders, state.own});
  }
  return tensors;
}

std::vector<std::string> parameter_names(const PlacedModel& model) {
  std::vector<std::string> names;
  for (const ParameterName& parameter : model.parameter_names()) names.push_back(parameter.name);
  names.insert(names.end(), model.buffer_names().begin(), model.buffer_names().end());
  return names;
}

std::vector<std::string> TrainingState::names() const {
  std::vector<std::string> names = parameter_names();
  for (const NamedState& state : step_.optimizer().state()) names.push_back(name_of(state));
  return names;
}

CheckpointInfo TrainingState::info(const std::string& config_text) const {
  const RunSetup& setup = model_.setup();
  const StepState& state = step_.state();
  CheckpointInfo info;
  info.step = state.steps();
  info.updates = state.updates();
  info.samples = state.steps() * setup.config->batch.global;
  info.seed = setup.config->run.seed;
  info.loss_scale = state.loss_scale();
  info.data = setup.dataset->fingerprint();
  info.config = config_text;
  info.tokenizer = setup.tokenizer->fingerprint();
  info.structure = structure_of(*setup.tree);
  return info;
}

void TrainingState::begin_with_loaded() {
  step_.parameters_changed();
  model_.complete_loaded();
}

void TrainingState::continue_from(const Checkpoints::Loaded& loaded) {
  begin_with_loaded();
  step_.state().set(loaded.info.step, loaded.info.updates, loaded.info.loss_scale);
}

}  // namespace tessera
