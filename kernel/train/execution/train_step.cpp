#include "kernel/train/execution/train_step.hpp"

#include <algorithm>
#include <utility>

#include "kernel/dry/dry_rank.hpp"
#include "kernel/graph/graph_plan.hpp"
#include "kernel/train/execution/bundle_trace.hpp"
#include "kernel/train/gradients/check_replicas.hpp"
#include "tessera/error.hpp"
#include "tessera/types.hpp"

namespace tessera {

namespace {

// The dtype in which replicas send each other gradients.
DType gradient_dtype_of(const RunConfig& config) {
  const std::string& dtype = config.parallel.gradient_dtype;
  return parse_dtype(dtype == "main" ? config.precision.main : dtype);
}

// Refused under every layout, not only where replicas would update parts of parameters.
void require_elements(const UpdateRule& rule, const std::string& where) {
  for (const StateSpec& state : rule.state()) {
    if (state.shape == nullptr) continue;
    fail_config(
        "{}: the state \"{}\" has a shape of its own, which needs whole parameters; state `static "
        "constexpr bool kWholeParameters = true` in the class of the rule",
        where,
        state.name);
  }
}

std::shared_ptr<Optimizer> make_optimizer(PlacedModel& model) {
  const RunSetup& setup = model.setup();
  const std::vector<Parameter*> parameters = model.parts().parameter_list();
  OptimizerArguments arguments;
  arguments.parameters = parameters;
  arguments.model = model.parameter_names();
  arguments.memory = &model.memory();
  arguments.mesh = model.rank().mesh.get();
  arguments.device = model.rank().device.get();
  arguments.make_rule = [&model, &setup](const Component<UpdateRule>& rule) {
    RuleArguments for_rule{model.rank().device.get()};
    std::shared_ptr<UpdateRule> made = setup.maker->make(rule, for_rule);
    if (!setup.whole) require_elements(*made, setup.maker->choice(rule.path, rule.type));
    return made;
  };
  return setup.maker->make(setup.config->optimizer, arguments);
}

}  // namespace

TrainStep::TrainStep(PlacedModel& model)
    : TrainStep(model, model.plan(static_cast<int>(model.setup().microbatches), true)) {}

TrainStep::TrainStep(PlacedModel& model, Plan plan)
    : model_(model),
      plan_(std::move(plan)),
      gradients_(model.memory(),
                 *model.rank().mesh,
                 *model.rank().device,
                 gradient_dtype_of(*model.setup().config)),
      inputs_(*model.setup().dataset,
              model.parts(),
              model.setup().batch,
              *model.rank().mesh,
              *model.rank().device,
              plan_.shape.microbatches,
              static_cast<int>(model.setup().microbatches)),
      losses_(model.parts(),
              model.setup().config->run.log_every_steps,
              *model.rank().mesh,
              *model.rank().device),
      optimizer_(make_optimizer(model)),
      state_(model.setup(), model.parts(), *model.rank().mesh, *model.rank().device),
      executor_(
          model.chunks(), model.parts(), &gradients_, *model.rank().mesh, model.boundaries()) {
  // What it costs to ask is part of a step of such a run: dry steps and tests take it too.
  if (model.setup().config->check.skips()) refuse_ = [](double, FoundInf) { return false; };
  executor_.prepare(model.prepared());
  Context cx = context();
  gradients_.zero(cx);
}

Context TrainStep::context() {
  Context cx = model_.rank().context();
  cx.tape = &tape_;
  cx.sink = &losses_;
  cx.loss_scale = state_.scalar(step_scalar::kLossScale);
  return cx;
}

void TrainStep::prepare() {
  if (replay_.prepared()) return;
  const RunSetup& setup = model_.setup();
  if (setup.graphs->whole_step()) {
    require_capturable(*model_.rank().mesh, setup.config->graph.type);
    replay_.prepare_whole(context(), dry_requests());
  } else if (has_captured(plan_)) {
    executor_.replay(replay_.prepare_ranges(model_, plan_, context(), inputs_.reader().inputs()));
  } else {
    replay_.prepare_nothing();
  }
}

// Known before the first step, so that it already runs in the memory of the graph.
Lifetimes TrainStep::dry_requests() const {
  const Rank& rank = model_.rank();
  const RunSetup& setup = model_.setup();
  const Rank dry = dry_rank(setup.layout, rank.mesh->rank(), rank.device);
  LifetimeRecorder asked(dry.device->pool());
  PlacedModel model(dry, setup);
  TrainStep step(model, plan_);
  step.observe(executor_.observer());
  Context cx = step.context();
  cx.pool = &asked;
  step.compute(cx, {});
  asked.end_graph(Lifetime::slot);
  return asked.lifetimes();
}

void TrainStep::advance(const std::function<void()>& inspect, bool observed) {
  prepare();
  const i64 step = state_.steps() + 1;
  const i64 check_every = model_.setup().config->check.graphs_every;
  if (check_every > 0 && step % check_every == 0) replay_.check_next();
  Context cx = context();
  const Event begun = state_.begin(cx);
  upload(cx);
  const StepReplay::Body body = [&](Context& c) { compute(c, inspect); };
  const bool replayed = replay_.run(cx, step, observed, executor_.observer(), body);
  if (replayed) parameters_changed();
  losses_.keep(cx, state_.scalars());
  state_.end(cx, begun);
  if (!observed) replay_.capture(context(), body);
}

// This step's samples, and the request to stop; reads the next one's meanwhile.
void TrainStep::upload(Context& cx) {
  const RunSetup& setup = model_.setup();
  const i64 step = state_.steps();
  const i64 samples =
      plan_.shape.microbatches * setup.batch.micro * model_.rank().mesh->size(Axis::data);
  const StepInputs::Request now{SampleSet::train, step * samples, samples};
  const StepInputs::Request next{SampleSet::train, (step + 1) * samples, samples};
  const bool more = step + 1 < setup.config->run.steps;
  inputs_.upload(cx, now, more ? &next : nullptr, state_.stop_requested() ? 1 : 0);
}

// Whatever a step does between fixed inputs and fixed results: what a graph of it holds.
void TrainStep::compute(Context& cx, const std::function<void()>& inspect) {
  losses_.begin(cx, inputs_.weights(), model_.rank().mesh->data_context());
  executor_.train(
      cx,
      plan_,
      [&](Context&, int microbatch, Bundle& bundle) { inputs_.load(microbatch, bundle); },
      [&](Context& c) {
        if (inspect) inspect();
        update(c);
        parameters_changed();
      });
  cx.skipped = state_.scalar(step_scalar::kFoundInf);
  for (Chunk& chunk : model_.chunks()) chunk.end_step(cx);
}

void TrainStep::update(Context& cx) {
  cx.category = Category::workspace;
  state_.sum(cx, *optimizer_, inputs_.flag());
  if (refuse_ && refuse_(losses_.now(cx), state_.found_inf())) state_.refuse(cx);
  state_.decide(cx, optimizer_->clip());
  optimizer_->step(cx, state_.scalars());
}

std::vector<StepLosses::Row> TrainStep::losses() {
  Context cx = context();
  std::vector<StepLosses::Row> rows = losses_.flush(cx);
  const std::vector<double> seconds = state_.seconds();
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].seconds = seconds[i];
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
  tessera::check_replicas(cx, model_.parts(), gradients_, state_.steps());
}

std::vector<TracedReadback> TrainStep::readbacks(const Plan& plan) const {
  const bool any = std::ranges::any_of(model_.chunks(), [](const Chunk& chunk) {
    return std::ranges::any_of(chunk.phases(), [](const Phase& p) { return !p.reads.empty(); });
  });
  if (!any) return {};
  return readbacks_of(plan,
                      model_.chunks(),
                      trace_bundles(model_.rank(), model_.setup(), inputs_.reader().inputs()));
}

GraphUse graph_use_of(TrainStep& step, const Rank& dry) {
  const auto& device = dynamic_cast<const MetaDevice&>(*dry.device);
  step.prepare();
  if (!step.replay().captured()) {
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
