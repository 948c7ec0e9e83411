#include "kernel/train/run/run_events.hpp"

#include <string>
#include <utility>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/config/version.hpp"
#include "kernel/dry/dry_rank.hpp"
#include "kernel/schedule/draw.hpp"
#include "kernel/schedule/orders.hpp"
#include "kernel/train/setup/model_flops.hpp"
#include "tessera/ops/update.hpp"

namespace tessera {

namespace {

i64 tokens_per_step(const RunSetup& setup) {
  return setup.config->batch.global * setup.sequence_length;
}

std::string counted(i64 n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

std::string schedule_picture(const RunSetup& setup, const Mesh& mesh) {
  const auto ranks = static_cast<int>(mesh.size(Axis::pipeline));
  const PipelineShape shape = shape_of(*setup.schedule, ranks, setup.microbatches, true);
  const std::string title = fmt::format("{}: {} in a pipeline, {} a step",
                                        setup.config->schedule.type,
                                        counted(ranks, "rank", "ranks"),
                                        counted(setup.microbatches, "microbatch", "microbatches"));
  return draw_svg(*setup.schedule, shape, title);
}

// Its launches are those of a dry step.
std::string graphs_text(const RunSetup& setup, const Rank& rank, GraphUse use) {
  const Rank dry = dry_rank(setup.layout, rank.mesh->rank(), rank.device);
  PlacedModel model(dry, setup);
  TrainStep step(model);
  const GraphUse counted = graph_use_of(step, dry);
  use.launches = counted.launches;
  use.replayed = counted.replayed;
  return use.text();
}

std::string layout_text(const RunConfig& config, const Rank& rank, const std::string& joined) {
  const Mesh& mesh = *rank.mesh;
  if (mesh.world_size() == 1) return "one process";
  constexpr std::pair<Axis, std::string_view> kShown[] = {{Axis::tensor, "tensor"},
                                                          {Axis::context, "context"},
                                                          {Axis::pipeline, "pipeline"},
                                                          {Axis::data, "data"}};
  std::string text;
  for (const auto& [axis, name] : kShown) {
    if (mesh.size(axis) == 1) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : " × ", name, mesh.size(axis));
    if (axis == Axis::tensor && config.parallel.sequence_parallel) text += " with sequence";
  }
  text += experts_text(mesh.ranks().layout());
  const std::string library = rank.communicator->library();
  return fmt::format("{}, {} ranks over {}{}",
                     text,
                     mesh.world_size(),
                     joined,
                     library.empty() ? "" : fmt::format(" ({})", library));
}

std::string device_text(const Device& device) {
  std::string text(device.name());
  if (device.threads() > 1) text += fmt::format(", {} threads", device.threads());
  const std::string hardware = device.hardware();
  return hardware.empty() ? text : fmt::format("{}: {}", text, hardware);
}

RunData data_of(const RunSetup& setup, SampleSet set, i64 samples) {
  const Dataset& dataset = *setup.dataset;
  const i64 size = dataset.size(set);
  const SetContent content = dataset.content(set);
  RunData data{content.documents, content.unit, content.tokens, 0};
  if (data.tokens == 0) data.tokens = size * setup.sequence_length;
  if (size > 0) data.epochs = static_cast<double>(samples) / static_cast<double>(size);
  return data;
}

}  // namespace

RunStart run_start(const Training& training, const StartingPoint& start) {
  const TrainerArguments& arguments = training.arguments;
  const Rank& rank = training.model.rank();
  const RunSetup& setup = training.setup();
  const RunConfig& config = training.config();
  RunStart event;
  event.name = config.run.name;
  event.out = config.run.out;
  event.first_step = training.steps() + 1;
  event.last_step = config.run.steps;
  event.world = rank.mesh->world_size();
  event.parameters = training.model.parameter_elements();
  event.tokens_per_step = tokens_per_step(setup);
  event.layout = layout_text(config, rank, arguments.joined);
  event.device = device_text(*rank.device);
  if (const std::string unit = rank.device->unit().text; !unit.empty()) {
    event.device += "; " + unit;
  }
  event.training = data_of(setup, SampleSet::train, config.run.steps * config.batch.global);
  event.validation = data_of(setup, SampleSet::validation, setup.validation_samples);
  event.resumed_from = start.resumed_from;
  event.json = arguments.json;
  event.config = arguments.config_text;
  if (training.root()) {
    event.flops_per_token = model_flops_per_token(setup, rank.device);
    event.peak_flops = rank.units_per_rank * peak_flops(setup, *rank.device);
    event.schedule = schedule_picture(setup, *rank.mesh);
    if (const GraphUse use = training.step.graph_use(); use.graphs > 0) {
      event.graphs = graphs_text(setup, rank, use);
    }
  }
  return event;
}

RunPart run_part(const Training& training, const RunStart& event, const StartingPoint& start) {
  return {
      .step = event.first_step - 1,
      .tessera = version_text(),
      .host = host_name(),
      .device = device_text(*training.model.rank().device),  // not how much of its memory was free
      .layout = event.layout,
      .resumed_from = start.resumed_from,
      .command = training.arguments.command,
      .changed = start.changed,
      .plugins = training.arguments.plugins};
}

StepEnd step_end(const RunSetup& setup, i64 step, const StepLosses::Row& row) {
  StepEnd event;
  event.step = step;
  event.loss = row.loss;
  event.grad_norm = row.scalars[step_scalar::kNorm];
  event.lr = row.scalars[step_scalar::kLearningRate];
  event.skipped = row.scalars[step_scalar::kFoundInf] != 0;
  event.skipped_steps = step - static_cast<i64>(row.scalars[step_scalar::kSteps]);
  if (setup.config->precision.scales_loss()) {
    event.loss_scale = row.scalars[step_scalar::kLossScale];
  }
  event.seconds = row.seconds;
  event.tokens_per_second = static_cast<double>(tokens_per_step(setup)) / row.seconds;
  event.metrics = row.metrics;
  event.by_layer = row.by_layer;
  return event;
}

}  // namespace tessera
