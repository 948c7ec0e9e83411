#include "kernel/train/training_state.hpp"

#include <set>

#include "kernel/model/initialize.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

std::string data_of(const Session& session) { return session.setup().dataset->fingerprint(); }

void require_same_run(const Checkpoints::Loaded& loaded, const Session& session) {
  const CheckpointInfo& info = loaded.info;
  const RunConfig& config = session.config();
  const std::string from = loaded.folder.string();
  const std::string_view advice =
      "set checkpoint.resume = \"none\" and another run.out to start anew";
  if (info.seed != config.run.seed) {
    fail_config(
        "{} was made with run.seed = {}, not {}; {}", from, info.seed, config.run.seed, advice);
  }
  if (info.data != data_of(session)) {
    fail_config("{} was made with other data: \"{}\" there, \"{}\" here; {}",
                from,
                info.data,
                data_of(session),
                advice);
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

}  // namespace

std::vector<CheckpointTensor> parameter_tensors(Session& session) {
  std::vector<CheckpointTensor> tensors;
  for (const ModelParts::Entry& entry : session.parts().parameters()) {
    tensors.push_back({entry.parameter->name, entry.parameter.get(), entry.parameter->main});
  }
  return tensors;
}

std::vector<CheckpointTensor> training_tensors(Session& session) {
  std::vector<CheckpointTensor> tensors = parameter_tensors(session);
  for (const NamedState& state : session.optimizer().state()) {
    tensors.push_back(
        {fmt::format("{}/{}", state.parameter->name, state.name), state.parameter, state.tensor});
  }
  return tensors;
}

std::vector<std::string> training_names(Session& session) {
  std::set<std::string> states;  // the same for every parameter, and a stage has at least one
  for (const NamedState& state : session.optimizer().state()) states.insert(state.name);
  std::vector<std::string> names;
  for (const std::string& parameter : session.parameter_names()) {
    names.push_back(parameter);
    for (const std::string& state : states) names.push_back(fmt::format("{}/{}", parameter, state));
  }
  return names;
}

CheckpointInfo training_info(const Session& session, const std::string& config_text) {
  CheckpointInfo info;
  info.step = session.steps();
  info.updates = session.updates();
  info.samples = session.steps() * session.config().batch.global;
  info.seed = session.config().run.seed;
  info.data = data_of(session);
  info.config = config_text;
  return info;
}

void continue_from(const Checkpoints::Loaded& loaded, Session& session) {
  require_same_run(loaded, session);
  for (const ModelParts::Entry& entry : session.parts().parameters()) {
    refresh_compute(*entry.parameter, session.device());
  }
  session.set_steps(loaded.info.step, loaded.info.updates);
}

}  // namespace tessera
