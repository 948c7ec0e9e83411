#include "kernel/train/execution/train_step.hpp"

#include <utility>

#include "kernel/model/host_values.hpp"
#include "kernel/train/gradients/check_replicas.hpp"
#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

Tensor allocate(Device& device, const Shape& shape) {
  return Tensor::allocate(
      device, device.pool(), device.stream(), shape, DType::f64, Category::optimizer);
}

Tensor scalar(Device& device, double value) {
  Tensor tensor = allocate(device, {1});
  device.write(tensor, &value);
  return tensor;
}

}  // namespace

TrainStep::TrainStep(const Rank& rank,
                     PlacedModel& model,
                     const RunSetup& setup,
                     const StepOptions& options)
    : rank_(rank),
      model_(model),
      setup_(setup),
      microbatches_(options.microbatches > 0 ? options.microbatches
                                             : static_cast<int>(setup.microbatches)),
      gradients_(model.parts().parameters(),
                 precision_of(setup.config->precision.main),
                 setup.config->parallel.bucket_elements,
                 *rank.mesh,
                 *rank.device),
      loader_(*setup.dataset, model.parts(), setup.batch, *rank.mesh, *rank.device),
      losses_(std::make_unique<StepLosses>(
          model.parts(), setup.config->run.log_every_steps, *rank.device)) {
  make_optimizer();
  make_scalars();
  executor_ = std::make_unique<Executor>(
      model.chunks(), model.parts(), &gradients_, *rank.mesh, model.boundaries(), options.observer);
  const std::vector<std::vector<int>> buckets = gradients_.bucket_layers();
  plan_ = options.pipeline != nullptr ? model.plan(*options.pipeline, buckets)
                                      : model.plan(microbatches_, true, buckets);
  Context cx = context();
  gradients_.zero(cx);
}

TrainStep::~TrainStep() = default;

void TrainStep::make_optimizer() {
  const std::vector<Parameter*> parameters = model_.parts().parameter_list();
  OptimizerArguments arguments;
  arguments.parameters = parameters;
  arguments.mesh = rank_.mesh.get();
  arguments.device = rank_.device.get();
  arguments.make_rule = [this](const Component<UpdateRule>& rule) {
    RuleArguments for_rule{rank_.device.get()};
    return setup_.maker->make(rule, for_rule);
  };
  optimizer_ = setup_.maker->make(setup_.config->optimizer, arguments);
}

void TrainStep::make_scalars() {
  Device& device = *rank_.device;
  const i64 steps = setup_.config->run.steps;
  std::vector<double> rates;
  for (i64 step = 1; step <= steps; ++step) rates.push_back(setup_.lr->rate(step));
  rates_ = allocate(device, {steps});
  device.write(rates_, rates.data());
  scalars_ = allocate(device, {step_scalar::kCount});
  loss_scale_ = scalars_.slice(0, step_scalar::kLossScale, 1);
  sum_squares_ = scalar(device, 0);
  set_steps(0, 0);
}

i64 TrainStep::updates() const {
  return static_cast<i64>(read_values(*rank_.device, scalars_)[step_scalar::kSteps]);
}

void TrainStep::set_steps(i64 steps, i64 updates) {
  steps_ = steps;
  std::vector<double> values(step_scalar::kCount, 0.0);
  values[step_scalar::kSteps] = static_cast<double>(updates);
  values[step_scalar::kLossScale] = 1;
  rank_.device->write(scalars_, values.data());
}

Context TrainStep::context() {
  Context cx = rank_.context();
  cx.tape = &tape_;
  cx.sink = losses_.get();
  cx.loss_scale = loss_scale_;
  return cx;
}

void TrainStep::run(const std::function<void()>& inspect) {
  Context cx = context();
  const i64 samples = microbatches_ * setup_.batch.micro * rank_.mesh->size(Axis::data);
  const std::vector<i64> weights =
      loader_.prepare(SampleSet::train, steps_ * samples, samples, microbatches_);
  losses_->begin(cx, weights, rank_.mesh->data_context());
  executor_->train(
      cx,
      plan_,
      [&](Context& c, int microbatch, Bundle& bundle) { loader_.load(c, microbatch, bundle); },
      [&](Context& c) {
        if (inspect) inspect();
        update(c);
      });
  losses_->keep(cx, scalars_);
  for (Chunk& chunk : model_.chunks()) chunk.end_step(cx);
  ++steps_;
}

void TrainStep::update(Context& cx) {
  cx.category = Category::workspace;
  FillArgs clear{sum_squares_.arg(), 0};
  ops::run(cx, clear);
  optimizer_->sum_squares(cx, sum_squares_);
  rank_.mesh->model()
      .all_reduce(*cx.stream, sum_squares_, ReduceOp::sum, "gradient norm")
      .wait(*cx.stream);
  StepScalarsArgs args{sum_squares_.arg(), rates_.arg(), scalars_.arg(), optimizer_->clip()};
  ops::run(cx, args);
  optimizer_->step(cx, scalars_);
}

std::vector<StepLosses::Row> TrainStep::losses() {
  Context cx = context();
  return losses_->flush(cx, *rank_.mesh);
}

void TrainStep::check_replicas() {
  Context cx = context();
  tessera::check_replicas(cx, model_.parts().parameter_list(), gradients_, steps_);
}

}  // namespace tessera
