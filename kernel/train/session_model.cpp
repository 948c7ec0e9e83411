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

BuildSettings Session::build_settings(const Mesh& mesh, const Device& device) {
  return {.mesh = &mesh,
          .batch = setup_.batch,
          .compute = precision_of(config().precision.compute),
          .main = precision_of(config().precision.main),
          .seed = config().run.seed,
          .device = &device,
          .maker = &maker_};
}

void Session::build_model(const RunConfig& config) {
  const auto ranks = static_cast<int>(mesh_->size(Axis::pipeline));
  const auto rank = static_cast<int>(mesh_->coordinate(Axis::pipeline));
  stages_ = map_stages(*setup_.schedule, ranks, setup_.model->layers(), config.placement);
  parts_ = std::make_unique<ModelParts>(*mesh_);
  shared_ = std::make_unique<SharedGradients>(mesh_->group(Axis::pipeline));
  std::vector<Boundary> boundaries;
  std::unique_ptr<Survey> survey;
  const BuildSettings settings = build_settings(*mesh_, *device_);
  if (stages_.last() > 0) {
    survey = std::make_unique<Survey>(*setup_.model, settings);
    // Terms are counted alike on every stage, whichever declares them.
    for (const std::string& loss : survey->parts().losses()) parts_->loss(loss);
    for (const auto& metric : survey->parts().metrics()) parts_->metric(metric.name, metric.reduce);
    boundaries = find_boundaries();
  }
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
  const ModelParts& whole = survey ? survey->parts() : *parts_;
  parameter_elements_ = whole.logical_elements();
  for (const ModelParts::Entry& entry : whole.parameters()) {
    parameter_names_.push_back(entry.parameter->name);
  }
  if (survey) {
    for (const ModelParts::Entry& entry : survey->parts().parameters()) {
      Parameter* own = parts_->find(entry.parameter->name);
      if (own != nullptr) shared_->add(*own, survey->holders(*own, stages_));
    }
  }
  for (const std::string_view input : {"tokens", "rows", "positions"}) parts_->slot(input);
  boundaries_ = std::move(boundaries);
}

// The shapes between the stages, from running the layers once without memory.
std::vector<Boundary> Session::find_boundaries() {
  MetaDevice meta(device_);
  SimulatedCommunicator simulated;
  Mesh mesh(mesh_->ranks(), mesh_->rank());
  build_mesh(mesh, simulated, meta);
  const BuildSettings settings = build_settings(mesh, meta);
  Survey survey(*setup_.model, settings);
  for (const ModelParts::Entry& entry : survey.parts().parameters()) {
    allocate(*entry.parameter, meta, settings);
  }
  const CoreOps ops(meta);
  StepLosses losses(survey.parts(), 1, meta);
  Context cx;
  cx.device = &meta;
  cx.ops = &ops;
  cx.stream = &meta.stream();
  cx.pool = &meta.pool();
  cx.mesh = &mesh;
  cx.sink = &losses;
  const std::vector<FieldInfo> only_tokens = {{.name = "tokens", .dtype = DType::i64, .loss = ""}};
  return survey.boundaries(cx,
                           stages_,
                           setup_.dataset != nullptr ? setup_.dataset->fields() : only_tokens,
                           setup_.batch);
}

}  // namespace tessera
