#include "kernel/train/execution/train_step.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernel/model/host_values.hpp"
#include "kernel/model/located_error.hpp"
#include "kernel/train/execution/bundle_trace.hpp"
#include "kernel/train/gradients/check_replicas.hpp"
#include "tessera/error.hpp"
#include "tessera/ops.hpp"
#include "tessera/types.hpp"

namespace tessera {

namespace {

Tensor allocate(Device& device, const Shape& shape) {
  return Tensor::allocate(
      device, device.pool(), device.stream(), shape, DType::fp64, Category::optimizer);
}

LossScaling scaling_of(const PrecisionSection& precision) {
  if (!precision.scales_loss() || precision.loss_scale) return {};
  return {.window = precision.loss_scale_window,
          .growth = precision.loss_scale_growth,
          .backoff = precision.loss_scale_backoff,
          .least = precision.loss_scale_min,
          .hysteresis = precision.loss_scale_hysteresis};
}

// The first step's.
double loss_scale_of(const PrecisionSection& precision) {
  if (!precision.scales_loss()) return 1;
  return precision.loss_scale.value_or(precision.loss_scale_start);
}

// In which replicas send each other gradients.
DType gradient_dtype_of(const RunConfig& config) {
  const std::string& dtype = config.parallel.gradient_dtype;
  return parse_dtype(dtype == "main" ? config.precision.main : dtype);
}

}  // namespace

TrainStep::TrainStep(const Rank& rank,
                     PlacedModel& model,
                     const RunSetup& setup,
                     const StepOptions& options)
    : rank_(rank),
      model_(model),
      setup_(setup),
      options_(options),
      microbatches_(options.microbatches > 0 ? options.microbatches
                                             : static_cast<int>(setup.microbatches)),
      gradients_(model.memory(),
                 model.parts().parameters(),
                 *rank.mesh,
                 *rank.device,
                 gradient_dtype_of(*setup.config)),
      inputs_(*setup.dataset,
              model.parts(),
              setup.batch,
              *rank.mesh,
              *rank.device,
              microbatches_,
              options.room),
      losses_(std::make_unique<StepLosses>(
          model.parts(), setup.config->run.log_every_steps, *rank.mesh, *rank.device)) {
  // What it costs to ask is part of a step of such a run: dry steps and tests take it too.
  if (setup.config->check.skips()) refuse_ = [](double, FoundInf) { return false; };
  make_optimizer(options.locate_errors);
  make_scalars();
  executor_ = std::make_unique<Executor>(
      model.chunks(), model.parts(), &gradients_, *rank.mesh, model.boundaries(), options.observer);
  executor_->prepare(model.prepared());
  const BucketUse buckets = bucket_use();
  plan_ = options.plan != nullptr       ? *options.plan
          : options.pipeline != nullptr ? model.plan(*options.pipeline, buckets)
                                        : model.plan(microbatches_, true, buckets);
  Context cx = context();
  gradients_.zero(cx);
}

TrainStep::~TrainStep() = default;

BucketUse TrainStep::bucket_use() const {
  return {gradients_.bucket_layers(),
          gradients_.sharded(),
          gradients_.bucket_groups(),
          model_.prepared().buckets()};
}

// Said under every layout, not only where replicas would update parts of parameters.
void TrainStep::require_elements(const UpdateRule& rule, const std::string& where) {
  for (const StateSpec& state : rule.state()) {
    if (state.shape == nullptr) continue;
    fail_config(
        "{}: the state \"{}\" has a shape of its own, which needs whole parameters; state `static "
        "constexpr bool kWholeParameters = true` in the class of the rule",
        where,
        state.name);
  }
}

void TrainStep::make_optimizer(bool locate_errors) {
  const std::vector<Parameter*> parameters = model_.parts().parameter_list();
  OptimizerArguments arguments;
  arguments.parameters = parameters;
  arguments.model = model_.parameter_names();
  arguments.memory = &model_.memory();
  arguments.mesh = rank_.mesh.get();
  arguments.device = rank_.device.get();
  arguments.make_rule = [this, locate_errors](const Component<UpdateRule>& rule) {
    RuleArguments for_rule{rank_.device.get()};
    std::shared_ptr<UpdateRule> made = setup_.maker->make(rule, for_rule);
    const std::string where = component_text(*setup_.maker, rule.path, rule.type);
    if (!setup_.whole) require_elements(*made, where);
    return locate_errors ? located(std::move(made), where) : made;
  };
  optimizer_ = setup_.maker->make(setup_.config->optimizer, arguments);
}

void TrainStep::make_scalars() {
  Device& device = *rank_.device;
  rates_ = std::make_unique<RateTable>(*setup_.lr, setup_.config->run.steps, device);
  scaling_ = scaling_of(setup_.config->precision);
  scalars_ = allocate(device, {step_scalar::kCount});
  loss_scale_ = scalars_.slice(0, step_scalar::kLossScale, 1);
  statistics_ = allocate(device, {3});
  for (const ModelParts::Entry& entry : model_.parts().parameters()) {
    has_experts_ |= entry.parameter->layout.expert();
  }
  for (Arrival& arrival : arrivals_) {
    arrival.scalars = device.host_block(step_scalar::kCount * dtype_size(DType::fp64));
  }
  set_steps(0, 0);
}

i64 TrainStep::updates() const {
  return static_cast<i64>(read_values(*rank_.device, scalars_)[step_scalar::kSteps]);
}

std::optional<StoredLossScale> TrainStep::loss_scale() const {
  if (scaling_.window == 0) return {};
  const std::vector<double> values = read_values(*rank_.device, scalars_);
  return StoredLossScale{values[step_scalar::kLossScale],
                         static_cast<i64>(values[step_scalar::kCleanSteps]),
                         static_cast<i64>(values[step_scalar::kHysteresis])};
}

void TrainStep::set_steps(i64 steps, i64 updates, const std::optional<StoredLossScale>& scale) {
  steps_ = steps;
  updates_known_ = updates;
  rates_->start(updates);
  std::vector<double> values(step_scalar::kCount, 0.0);
  values[step_scalar::kSteps] = static_cast<double>(updates);
  // A step that is skipped keeps it.
  if (updates > 0) values[step_scalar::kLearningRate] = rates_->of(updates);
  const StoredLossScale initial{loss_scale_of(setup_.config->precision), 0, scaling_.hysteresis};
  const StoredLossScale& start = scale && scaling_.window > 0 ? *scale : initial;
  values[step_scalar::kLossScale] = start.scale;
  values[step_scalar::kCleanSteps] = static_cast<double>(start.clean_steps);
  values[step_scalar::kHysteresis] = static_cast<double>(start.hysteresis);
  rank_.device->write(scalars_, values.data());
  for (Arrival& arrival : arrivals_) arrival.arrived = {};  // of steps that do not count any more
}

void TrainStep::pass_over() {
  // As a step does; the next one then finds no statistics of this one.
  read_statistics(arrivals_[static_cast<std::size_t>((steps_ + 1) % 2)]);
  arrivals_[static_cast<std::size_t>(steps_ % 2)].arrived = {};
  ++steps_;
}

Context TrainStep::context() {
  Context cx = rank_.context();
  cx.tape = &tape_;
  cx.sink = losses_.get();
  cx.loss_scale = loss_scale_;
  return cx;
}

void TrainStep::prepare() {
  if (std::exchange(prepared_, true)) return;
  if (setup_.graphs->whole_step()) {
    require_capturable(*rank_.mesh, setup_.config->graph.type);
    whole_ = std::make_unique<StepGraph>(context(), dry_requests());
    return;
  }
  if (std::ranges::all_of(plan_.phases, [](const PhaseInfo& info) { return info.graph < 0; })) {
    return;
  }
  graphs_ = std::make_unique<ModelGraphs>(
      rank_, model_, setup_, plan_, context(), inputs_.reader().inputs());
  executor_->replay(*graphs_);
}

// Known before the first step, so that it already runs in the memory of the graph.
Lifetimes TrainStep::dry_requests() const {
  const Rank dry = dry_rank(setup_.layout, rank_.mesh->rank(), rank_.device);
  LifetimeRecorder asked(dry.device->pool());
  PlacedModel model(dry, setup_, {.locate_errors = options_.locate_errors});
  StepOptions options = options_;
  options.plan = &plan_;
  TrainStep step(dry, model, setup_, options);
  Context cx = step.context();
  cx.pool = &asked;
  step.compute(cx, {});
  asked.end_graph(Lifetime::slot);
  return asked.lifetimes();
}

std::vector<TracedReadback> TrainStep::readbacks(const Plan& plan) const {
  const bool any = std::ranges::any_of(model_.chunks(), [](const Chunk& chunk) {
    return std::ranges::any_of(chunk.phases(), [](const Phase& p) { return !p.reads.empty(); });
  });
  if (!any) return {};
  return readbacks_of(
      plan, model_.chunks(), trace_bundles(rank_, setup_, inputs_.reader().inputs()));
}

GraphUse TrainStep::graph_use() const {
  if (graphs_ != nullptr) return graphs_->use();
  GraphUse use;
  if (whole_ == nullptr) return use;
  use.whole_step = true;
  use.segments = use.graphs = use.slots = 1;
  use.input_bytes = inputs_.bytes();
  use.scratch_bytes = whole_->bytes();
  return use;
}

void TrainStep::run(const std::function<void()>& inspect) { advance(inspect, bool(inspect)); }

void TrainStep::run_observed() { advance({}, true); }

void TrainStep::advance(const std::function<void()>& inspect, bool observed) {
  prepare();
  const i64 check_every = setup_.config->check.graphs_every;
  if (graphs_ != nullptr && check_every > 0 && (steps_ + 1) % check_every == 0) {
    graphs_->check_next();
  }
  Context cx = context();
  rates_->cover(updates_known_);
  const Event begin = cx.device->record(*cx.stream, Timing::yes);
  const i64 samples = microbatches_ * setup_.batch.micro * rank_.mesh->size(Axis::data);
  const StepInputs::Request now{SampleSet::train, steps_ * samples, samples};
  const StepInputs::Request next{SampleSet::train, (steps_ + 1) * samples, samples};
  const bool more = steps_ + 1 < setup_.config->run.steps;
  inputs_.upload(cx, now, more ? &next : nullptr, stop_requested_ ? 1 : 0);
  const auto whole = [&](Context& c) { compute(c, inspect); };
  if (whole_ == nullptr) {
    whole(cx);
  } else if (observed || !whole_->captured()) {
    whole_->run(cx, whole);
  } else {
    replay_whole(cx);
    parameters_changed();
  }
  losses_->keep(cx, scalars_);
  Arrival& mine = arrivals_[static_cast<std::size_t>(steps_ % 2)];
  cx.device->copy_to_host(*cx.stream, scalars_, mine.scalars);
  mine.arrived = cx.device->record(*cx.stream, Timing::yes);
  timings_.emplace_back(begin, mine.arrived);
  ++steps_;
  read_statistics(arrivals_[static_cast<std::size_t>(steps_ % 2)]);
  if (whole_ != nullptr && !observed && !whole_->captured()) whole_->capture(context(), whole);
}

void TrainStep::replay_whole(Context& cx) {
  ActionObserver nobody;
  ActionObserver& observer = options_.observer != nullptr ? *options_.observer : nobody;
  replaying_ = steps_ + 1;
  observer.replaying(steps_ + 1);
  whole_->replay(cx);
  observer.replayed();
  replaying_.reset();
}

// Whatever a step does between fixed inputs and fixed results: what a graph of it holds.
void TrainStep::compute(Context& cx, const std::function<void()>& inspect) {
  losses_->begin(cx, inputs_.weights(), rank_.mesh->data_context());
  executor_->train(
      cx,
      plan_,
      [&](Context&, int microbatch, Bundle& bundle) { inputs_.load(microbatch, bundle); },
      [&](Context& c) {
        if (inspect) inspect();
        update(c);
        parameters_changed();
      });
  cx.skipped = scalars_.slice(0, step_scalar::kFoundInf, 1);
  for (Chunk& chunk : model_.chunks()) chunk.end_step(cx);
}

void TrainStep::read_statistics(const Arrival& of) {
  if (!of.arrived.state) return;  // of no step
  rank_.device->join(of.arrived, kNoDeadline, "the statistics of the step before");
  const auto scalars = of.scalars.as<double>(step_scalar::kCount);
  stopping_ |= scalars[step_scalar::kStop] > 0;
  updates_known_ = static_cast<i64>(scalars[step_scalar::kSteps]);
}

// Each rank of a stage then has the sum over the stage's experts, the first of a tensor group adds
// it to what is summed over the model replica.
void TrainStep::add_experts(Context& cx, const Tensor& experts, const Tensor& sum_squares) const {
  const Mesh& mesh = *rank_.mesh;
  mesh.experts()
      .all_reduce(*cx.stream, experts, ReduceOp::sum, "gradient norm of the experts")
      .wait(*cx.stream);
  if (!mesh.first(Axis::tensor)) return;
  AddArgs add{sum_squares.arg(), experts.arg(), sum_squares.arg()};
  ops::run(cx, add);
}

// Waits for the device. What its step scalars will say of these gradients.
FoundInf TrainStep::found_inf(const Tensor& sum_squares) const {
  double sum = 0, scale = 0;
  rank_.device->read(sum_squares, &sum);
  rank_.device->read(scalars_.slice(0, step_scalar::kLossScale, 1), &scale);
  return scaling_.found_inf(sum, scale);
}

void TrainStep::update(Context& cx) {
  cx.category = Category::workspace;
  const Tensor stop = statistics_.slice(0, 0, 1), sum_squares = statistics_.slice(0, 1, 1);
  const Tensor squares = statistics_.slice(0, 1, 2);  // of dense parameters, of experts
  FillArgs clear{squares.arg(), 0};
  ops::run(cx, clear);
  optimizer_->sum_squares(cx, squares);
  if (has_experts_) add_experts(cx, statistics_.slice(0, 2, 1), sum_squares);
  // The sum over data and context ranks came with the weights.
  const Tensor& weights = inputs_.weights();
  CopyArgs request{weights.slice(0, weights.dim(0) - 1, 1).arg(), stop.arg()};
  ops::run(cx, request);
  rank_.mesh->model()
      .all_reduce(*cx.stream, statistics_.slice(0, 0, 2), ReduceOp::sum, "gradient norm")
      .wait(*cx.stream);
  if (refuse_ && refuse_(losses_->now(cx), found_inf(sum_squares))) {
    FillArgs refused{sum_squares.arg(), std::numeric_limits<double>::infinity()};
    ops::run(cx, refused);
  }
  StepScalarsArgs args{
      sum_squares.arg(), rates_->tensor().arg(), scalars_.arg(), optimizer_->clip(), scaling_};
  ops::run(cx, args);
  CopyArgs stops{stop.arg(), scalars_.slice(0, step_scalar::kStop, 1).arg()};
  ops::run(cx, stops);
  optimizer_->step(cx, scalars_);
}

std::vector<StepLosses::Row> TrainStep::losses() {
  Context cx = context();
  std::vector<StepLosses::Row> rows = losses_->flush(cx);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].seconds = rank_.device->elapsed(timings_[i].first, timings_[i].second);
  }
  timings_.clear();
  return rows;
}

void TrainStep::parameters_changed() {
  gradients_.updated();
  model_.prepared().changed();
}

void TrainStep::gather_parameters() {
  Context cx = context();
  gradients_.gather_all(cx);
}

void TrainStep::check_replicas() {
  gather_parameters();
  Context cx = context();
  tessera::check_replicas(cx, model_.parts(), gradients_, steps_);
}

GraphUse graph_use_of(TrainStep& step, const Rank& dry) {
  const auto& device = dynamic_cast<const MetaDevice&>(*dry.device);
  step.prepare();
  if (!step.captured()) {
    step.run();
    step.losses();
  }
  GraphUse use = step.graph_use();
  const MetaDevice::Launches before = device.launches();
  step.run();
  use.launches = device.launches().all - before.all;
  use.replayed = device.launches().replayed - before.replayed;
  return use;
}

}  // namespace tessera
