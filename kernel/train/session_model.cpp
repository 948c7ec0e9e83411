#include "kernel/comm/build_mesh.hpp"
#include "kernel/comm/simulated.hpp"
#include "kernel/model/initialize.hpp"
#include "kernel/tensor/meta_device.hpp"
#include "kernel/train/session.hpp"

namespace tessera {

namespace {

void allocate(Parameter& p, Device& device, const BuildSettings& settings) {
  const auto make = [&](DType dtype) {
    return Tensor::allocate(
        device, device.pool(), device.stream(), p.local, dtype, Category::parameters);
  };
  p.main = make(settings.main);
  p.compute = settings.compute == settings.main ? p.main : make(settings.compute);
}

}  // namespace

void Session::build_model(const RunConfig& config) {
  const auto ranks = static_cast<int>(mesh_->size(Axis::pipeline));
  const auto rank = static_cast<int>(mesh_->coordinate(Axis::pipeline));
  stages_ = map_stages(*setup_.schedule, ranks, setup_.model->layers(), config.placement);
  parts_ = std::make_unique<ModelParts>(*mesh_);
  shared_ = std::make_unique<SharedGradients>(mesh_->group(Axis::pipeline));
  const Holders shared = stages_.last() > 0 ? survey_model() : Holders();
  const BuildSettings settings =
      build_settings_of(config, maker_, setup_.batch, *mesh_, device_.get());
  for (int chunk = 0; chunk < setup_.schedule->chunks(); ++chunk) {
    for (const StageMap::Stage& stage : stages_.stages) {
      if (stage.rank != rank || stage.chunk != chunk) continue;
      chunks_.emplace_back(
          *setup_.model, chunk, stage.layers.first, stage.layers.last, settings, *parts_);
    }
  }
  for (const ModelParts::Entry& entry : parts_->parameters()) {
    Parameter& p = *entry.parameter;
    allocate(p, *device_, settings);
    if (arguments_.stand_ins == nullptr) initialize(p, config.run.seed, *mesh_, *device_);
  }
  if (stages_.last() == 0) keep_names(*parts_);
  for (const auto& [name, holders] : shared) {
    Parameter* own = parts_->find(name);
    if (own != nullptr) shared_->add(*own, holders);
  }
  for (const std::string_view input : {"tokens", "rows", "positions"}) parts_->slot(input);
}

void Session::keep_names(const ModelParts& whole) {
  parameter_elements_ = whole.logical_elements();
  for (const ModelParts::Entry& entry : whole.parameters()) {
    parameter_names_.push_back(entry.parameter->name);
  }
}

// What a stage has to know of the others, from building the whole model over a device without
// memory and running its layers once: loss terms, names, who shares parameters, what crosses.
Session::Holders Session::survey_model() {
  MetaDevice meta(device_);
  SimulatedCommunicator simulated;
  Mesh mesh(mesh_->ranks(), mesh_->rank());
  build_mesh(mesh, simulated, meta);
  const BuildSettings settings = build_settings_of(config(), maker_, setup_.batch, mesh, &meta);
  Survey survey(*setup_.model, settings);
  const ModelParts& whole = survey.parts();
  keep_names(whole);
  // Terms are counted alike on every stage, whichever declares them.
  for (const std::string& loss : whole.losses()) parts_->loss(loss);
  for (const auto& metric : whole.metrics()) parts_->metric(metric.name, metric.reduce);
  Holders holders;
  for (const ModelParts::Entry& entry : whole.parameters()) {
    holders.emplace_back(entry.parameter->name, Survey::holders(entry, stages_));
    allocate(*entry.parameter, meta, settings);
  }
  const CoreOps ops(meta);
  StepLosses losses(whole, 1, meta);
  Context cx;
  cx.device = &meta;
  cx.ops = &ops;
  cx.stream = &meta.stream();
  cx.pool = &meta.pool();
  cx.mesh = &mesh;
  cx.sink = &losses;
  const std::vector<FieldInfo> only_tokens = {{.name = "tokens", .dtype = DType::i64, .loss = ""}};
  boundaries_ =
      survey.boundaries(cx,
                        stages_,
                        setup_.dataset != nullptr ? setup_.dataset->fields() : only_tokens,
                        setup_.batch);
  return holders;
}

}  // namespace tessera
