#include "kernel/train/setup/placed_model.hpp"

#include <utility>

#include "kernel/model/initialize.hpp"
#include "kernel/schedule/lower.hpp"
#include "kernel/schedule/verify.hpp"
#include "tessera/error.hpp"

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

PlacedModel::PlacedModel(const Rank& rank, const RunSetup& setup, PlaceOptions options)
    : rank_(rank), setup_(setup), stages_(setup.stages), parts_(*rank.mesh) {
  const auto here = static_cast<int>(rank.mesh->coordinate(Axis::pipeline));
  const Holders holders = stages_.last() > 0 ? survey(options) : Holders();
  BuildSettings settings = build_settings_of(setup, *rank.mesh, rank.device.get());
  settings.locate_errors = options.locate_errors;
  for (int chunk = 0; chunk < setup.schedule->chunks(); ++chunk) {
    for (const StageMap::Stage& stage : stages_.stages) {
      if (stage.rank != here || stage.chunk != chunk) continue;
      chunks_.emplace_back(
          *setup.model, chunk, stage.layers.first, stage.layers.last, settings, parts_);
    }
  }
  for (const ModelParts::Entry& entry : parts_.parameters()) {
    allocate(*entry.parameter, *rank.device, settings);
  }
  if (stages_.last() == 0) keep_names(parts_);
  for (const auto& [name, ranks] : holders) {
    Parameter* own = parts_.find(name);
    if (own == nullptr) continue;
    own->counted = ranks.front() == here;
    if (ranks.size() > 1) shared_.emplace_back(own, ranks);
  }
  for (const std::string_view input : {"tokens", "rows", "positions"}) parts_.slot(input);
}

void PlacedModel::keep_names(const ModelParts& whole) {
  parameter_elements_ = whole.logical_elements();
  for (const ModelParts::Entry& entry : whole.parameters()) {
    parameter_names_.push_back(entry.parameter->name);
  }
}

// What a stage has to know of the others, from building the whole model over a dry rank and running
// its layers once: loss terms, names, who shares parameters, what crosses.
PlacedModel::Holders PlacedModel::survey(PlaceOptions options) {
  const Rank dry = dry_rank(setup_.layout, rank_.mesh->rank(), rank_.device);
  BuildSettings settings = build_settings_of(setup_, *dry.mesh, dry.device.get());
  settings.locate_errors = options.locate_errors;
  Survey survey(*setup_.model, settings);
  const ModelParts& whole = survey.parts();
  keep_names(whole);
  // Terms are counted alike on every stage, whichever declares them.
  for (const auto& loss : whole.losses()) parts_.loss(loss.name, loss.component);
  for (const auto& metric : whole.metrics()) parts_.metric(metric);
  Holders holders;
  for (const ModelParts::Entry& entry : whole.parameters()) {
    holders.emplace_back(entry.parameter->name, Survey::holders(entry, stages_));
    allocate(*entry.parameter, *dry.device, settings);
  }
  boundaries_ = survey.boundaries(dry.context(), stages_, setup_.fields, setup_.batch);
  return holders;
}

void PlacedModel::initialize(u64 seed) {
  for (const ModelParts::Entry& entry : parts_.parameters()) {
    tessera::initialize(*entry.parameter, seed, *rank_.mesh, *rank_.device);
  }
}

std::vector<PhaseInfo> PlacedModel::phases() const {
  std::vector<PhaseInfo> phases;
  for (const Chunk& chunk : chunks_) {
    phases.insert(phases.end(), chunk.infos().begin(), chunk.infos().end());
  }
  mark_recomputed(phases, setup_.model->layers(), setup_.config->recompute);
  return phases;
}

Plan PlacedModel::plan(int microbatches,
                       bool training,
                       const std::vector<std::vector<int>>& bucket_layers) const {
  const auto ranks = static_cast<int>(rank_.mesh->size(Axis::pipeline));
  return plan({*setup_.schedule, shape_of(*setup_.schedule, ranks, microbatches, training)},
              bucket_layers);
}

Plan PlacedModel::plan(const Pipeline& pipeline,
                       const std::vector<std::vector<int>>& bucket_layers) const {
  const auto here = static_cast<int>(rank_.mesh->coordinate(Axis::pipeline));
  Plan plan = lower(pipeline, here, phases(), bucket_layers);
  verify(plan);
  check_places(plan);
  return plan;
}

void PlacedModel::check_places(const Plan& plan) const {
  for (int chunk = 0; chunk < plan.shape.chunks; ++chunk) {
    const int built = stages_.stage_of_chunk(plan.shape.rank, chunk);
    const int planned = plan.stages[static_cast<std::size_t>(chunk)];
    require(built == planned,
            "chunk {} of pipeline rank {} was at stage {} when the model was built and is at "
            "stage {} now: a schedule's place() depends on stages and chunks, rank and chunk only",
            chunk,
            plan.shape.rank,
            built,
            planned);
  }
}

}  // namespace tessera
