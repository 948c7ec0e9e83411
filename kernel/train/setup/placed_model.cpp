#include "kernel/train/setup/placed_model.hpp"

#include <utility>

#include "kernel/graph/graph_plan.hpp"
#include "kernel/model/initialize.hpp"
#include "kernel/schedule/lower.hpp"
#include "kernel/schedule/verify.hpp"
#include "kernel/train/gradients/bucket_use.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

// A graph runs its phases again together, or none of them.
void check_recomputed(const RunSetup& setup, const std::vector<PhaseInfo>& phases) {
  for (std::size_t i = 1; i < phases.size(); ++i) {
    const PhaseInfo &a = phases[i - 1], &b = phases[i];
    if (a.graph < 0 || a.graph != b.graph || a.recompute == b.recompute) continue;
    fail_config(
        "{}: [recompute] scopes: \"{}\" is in one graph with \"{}\": recompute both or none",
        setup.maker->origin("recompute", "scopes"),
        (a.recompute ? a : b).scope,
        (a.recompute ? b : a).scope);
  }
}

}  // namespace

PlacedModel::PlacedModel(const Rank& rank, const RunSetup& setup, PlaceOptions options)
    : PlacedModel(rank,
                  setup,
                  options,
                  options.outlines != nullptr ? options.outlines->of(rank)
                                              : Outlines(setup, options.locate_errors).of(rank)) {}

PlacedModel::PlacedModel(const Rank& rank,
                         const RunSetup& setup,
                         PlaceOptions options,
                         const std::shared_ptr<const OtherStages>& other_stages)
    : rank_(rank),
      setup_(setup),
      parts_(*rank.mesh, other_stages->holders),
      boundaries_(other_stages->boundaries),
      parameter_names_(other_stages->parameter_names),
      buffer_names_(other_stages->buffer_names),
      parameter_elements_(other_stages->parameter_elements),
      active_elements_(other_stages->active_elements) {
  // Terms are counted alike on every stage, whichever declares them.
  parts_.declare(other_stages->losses, other_stages->metrics, other_stages->counts);
  const auto here = static_cast<int>(rank.mesh->coordinate(Axis::pipeline));
  BuildSettings settings = build_settings_of(setup, *rank.mesh, rank.device.get());
  settings.locate_errors = options.locate_errors;
  for (int chunk = 0; chunk < setup.schedule->chunks(); ++chunk) {
    for (const StageMap::Stage& stage : setup.stages.stages) {
      if (stage.rank != here || stage.chunk != chunk) continue;
      chunks_.emplace_back(
          *setup.model, chunk, stage.layers.first, stage.layers.last, settings, parts_);
    }
  }
  memory_ = ParameterMemory(parts_.parameter_list(), setup.bucket_rules(*rank.mesh));
  memory_.allocate_values(*rank.device, settings.main, settings.compute);
  if (setup.config->precision.prepare_weights) {
    prepared_ = PreparedWeights(memory_, *rank.device, options.forward_only);
  }
  parts_.allocate_buffers(*rank.device);
  if (setup.stages.last() == 0) {
    parameter_names_ = parts_.parameter_names();
    buffer_names_ = saved_buffers(parts_);
    parameter_elements_ = parts_.logical_elements();
    active_elements_ = parts_.active_elements();
  }
  for (const std::string_view input : {"tokens", "row_ids", "positions"}) parts_.slot(input);
}

void PlacedModel::initialize(u64 seed) {
  for (const ModelParts::Entry& entry : parts_.parameters()) {
    Parameter& parameter = *entry.parameter;
    tessera::initialize(parameter, owned_values(memory_, parameter), seed, *rank_.device);
  }
  parts_.initialize_buffers(*rank_.device, true);
  prepared_.changed();
}

void PlacedModel::complete_loaded() {
  for (const ModelParts::Entry& entry : parts_.parameters()) {
    Parameter& parameter = *entry.parameter;
    refresh_compute(parameter, owned_values(memory_, parameter), *rank_.device);
  }
  parts_.initialize_buffers(*rank_.device, false);
  prepared_.changed();
}

std::vector<PhaseInfo> PlacedModel::phases() const {
  std::vector<PhaseInfo> phases;
  for (const Chunk& chunk : chunks_) {
    phases.insert(phases.end(), chunk.infos().begin(), chunk.infos().end());
  }
  mark_recomputed(phases, setup_.model->layers(), setup_.config->recompute);
  return phases;
}

Plan PlacedModel::plan(int microbatches, bool training) const {
  const auto ranks = static_cast<int>(rank_.mesh->size(Axis::pipeline));
  return plan({*setup_.schedule, shape_of(*setup_.schedule, ranks, microbatches, training)});
}

Plan PlacedModel::plan(const Pipeline& pipeline) const {
  const auto here = static_cast<int>(rank_.mesh->coordinate(Axis::pipeline));
  BucketUse buckets;
  if (pipeline.orders.shape.training) {
    buckets = bucket_use_of(memory_, parts_.parameters());
    buckets.prepared = prepared_.buckets();
  }
  std::vector<PhaseInfo> infos = phases();
  Plan plan = lower(pipeline, here, infos, buckets);
  const std::vector<CapturedRange> captured =
      plan.shape.training ? setup_.graphs->choose(infos, plan) : std::vector<CapturedRange>();
  if (!captured.empty()) {  // buckets are gathered before the graphs that read them
    try {
      mark_captured(infos, captured);
    } catch (const Error& error) {
      fail("{}: [graph] {}", setup_.maker->origin("graph", "type"), error.what());
    }
    check_recomputed(setup_, infos);
    plan = lower(pipeline, here, infos, buckets);
  }
  verify(plan);
  check_places(plan);
  return plan;
}

void PlacedModel::check_places(const Plan& plan) const {
  for (int chunk = 0; chunk < plan.shape.chunks; ++chunk) {
    const int built = setup_.stages.stage_of_chunk(plan.shape.rank, chunk);
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
