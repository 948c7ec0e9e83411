#include "kernel/train/run/training_state.hpp"

#include <optional>
#include <variant>

#include "kernel/config/config.hpp"
#include "kernel/model/initialize.hpp"
#include "kernel/train/run/meaning.hpp"
#include "tessera/error.hpp"
#include "tessera/written.hpp"

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
    const MainPart main = main_part(model.memory(), p);
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
  CheckpointInfo info;
  info.step = step_.steps();
  info.updates = step_.updates();
  info.samples = step_.steps() * setup_.config->batch.global;
  info.seed = setup_.config->run.seed;
  info.loss_scale = step_.loss_scale();
  info.data = setup_.dataset->fingerprint();
  info.config = config_text;
  info.tokenizer = setup_.tokenizer->fingerprint();
  info.structure = structure_of(*setup_.tree);
  return info;
}

namespace {

// Where another length cuts the text, other samples are left. None: this version does not know it.
std::optional<i64> sequence_length_in(const std::string& stored) {
  try {
    const Config config = Config::stored(stored, "the checkpoint");
    const auto found = config.tree().entries().find("batch.sequence_length");
    if (found == config.tree().entries().end() || !found->second.value) return std::nullopt;
    const i64* length = std::get_if<i64>(&found->second.value->data);
    return length != nullptr ? std::optional(*length) : std::nullopt;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

}  // namespace

void TrainingState::require_same_run(const Checkpoints::Loaded& loaded) const {
  const CheckpointInfo& info = loaded.info;
  const RunConfig& config = *setup_.config;
  const std::string from = loaded.folder.string();
  const std::string_view advice =
      "set checkpoint.resume = \"none\" and another run.out to start anew";
  if (info.seed != config.run.seed) {
    fail_config(
        "{} was made with run.seed = {}, not {}; {}", from, info.seed, config.run.seed, advice);
  }
  const Meaning meaning = compare_meaning(info, setup_);
  if (rank_.mesh->rank() == 0) warn_of_unknown(loaded.folder, meaning);
  if (!meaning.same()) {
    fail_config(
        "{} was made with another model or tokenizer, so its parameters mean something else here:{}"
        "\n  {}, with checkpoint.init_from = \"{}\" and checkpoint.init_changes to begin with its "
        "parameters all the same",
        from,
        meaning.text(),
        advice,
        from);
  }
  const std::string data = setup_.dataset->fingerprint();
  if (info.data != data) {
    fail_config("{} was made with other data: {} there, {} here; {}",
                from,
                written_word(info.data, 400),
                written_word(data, 400),
                advice);
  }
  const i64 length = setup_.sequence_length;
  if (const auto stored = sequence_length_in(info.config); stored && *stored != length) {
    fail_config(
        "{} was made with batch.sequence_length = {}, not {}: that cuts the data into other "
        "samples; {}, with checkpoint.init_from = \"{}\" to keep the weights",
        from,
        *stored,
        length,
        advice,
        from);
  }
  if (info.samples != info.step * config.batch.global) {
    fail_config("{} has seen {} samples in {} steps, which is not batch.global = {} a step; {}",
                from,
                info.samples,
                info.step,
                config.batch.global,
                advice);
  }
  if (info.step > config.run.steps) {
    fail_config("{} is beyond the end of this run: run.steps = {}", from, config.run.steps);
  }
}

void TrainingState::begin_with_loaded() {
  step_.parameters_changed();
  for (const ModelParts::Entry& entry : model_.parts().parameters()) {
    Parameter& parameter = *entry.parameter;
    refresh_compute(parameter, main_part(model_.memory(), parameter), *rank_.device);
  }
  model_.parts().initialize_buffers(*rank_.device, false);
}

void TrainingState::continue_from(const Checkpoints::Loaded& loaded) {
  require_same_run(loaded);
  begin_with_loaded();
  step_.set_steps(loaded.info.step, loaded.info.updates, loaded.info.loss_scale);
}

}  // namespace tessera
