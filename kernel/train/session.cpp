#include "kernel/train/session.hpp"

#include <algorithm>
#include <utility>

#include "kernel/comm/build_mesh.hpp"
#include "kernel/comm/per_host.hpp"
#include "kernel/model/host_values.hpp"
#include "kernel/schedule/lower.hpp"
#include "kernel/schedule/verify.hpp"
#include "kernel/train/agree_plans.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"
#include "tessera/ops.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera {

namespace {

std::chrono::milliseconds ms(double seconds) {
  return std::chrono::milliseconds(static_cast<i64>(seconds * 1000));
}

std::shared_ptr<Communicator> make_communicator(const SessionArguments& a, ComponentMaker& maker) {
  if (a.world == 1) return nullptr;
  if (a.stand_ins != nullptr) return a.stand_ins->communicator;
  require(a.store != nullptr, "a world of {} ranks needs a store", a.world);
  const CommSection& comm = a.config->run.comm;
  CommunicatorArguments arguments{
      a.rank, a.world, a.store, ms(comm.timeout_s), ms(comm.init_timeout_s)};
  const auto make_as = [&maker](const std::string& type) {
    return [&maker, type](CommunicatorArguments& of_type) {
      return maker.make(Component<Communicator>{type, "comm"}, of_type);
    };
  };
  if (a.between_hosts.empty()) return make_as(a.communicator)(arguments);
  return std::make_shared<PerHostCommunicator>(
      Hosts(a.hosts), arguments, make_as(a.communicator), make_as(a.between_hosts));
}

Tensor allocate(Device& device, const Shape& shape, DType dtype, Category category) {
  return Tensor::allocate(device, device.pool(), device.stream(), shape, dtype, category);
}

Tensor scalar(Device& device, double value) {
  Tensor tensor = allocate(device, {1}, DType::f64, Category::optimizer);
  device.write(tensor, &value);
  return tensor;
}

}  // namespace

Session::Session(const SessionArguments& arguments)
    : arguments_(arguments), maker_(*arguments.plugins, *arguments.config) {
  const RunConfig& config = arguments.config->run;
  set_parallel_threads(arguments.threads);
  const StandIns* stand_ins = arguments.stand_ins;
  setup_ = set_up(config,
                  maker_,
                  arguments.world,
                  arguments.tokenizer,
                  stand_ins != nullptr ? stand_ins->dataset : nullptr);
  communicator_ = make_communicator(arguments, maker_);
  DeviceArguments device_arguments;
  device_arguments.local_rank = static_cast<int>(arguments.local_rank);
  device_arguments.threads = arguments.threads;
  device_arguments.deferred_seed = arguments.deferred_seed;
  if (communicator_ != nullptr) device_arguments.memory = communicator_->memory();
  device_arguments.kernels = [&](std::string_view name) {
    return arguments_.plugins->kernels(name);
  };
  device_ = stand_ins != nullptr ? stand_ins->device
                                 : maker_.make(config.device.device, device_arguments);
  mesh_ = std::make_unique<Mesh>(RankGenerator(setup_.layout), arguments.rank);
  if (communicator_ != nullptr) {
    build_mesh(*mesh_, *communicator_, *device_);
  } else {
    build_mesh(*mesh_);
  }
  ops_ = std::make_unique<CoreOps>(*device_);
  build_model(config);
  loss_scale_ = scalar(*device_, 1);
  const bool training = setup_.dataset != nullptr;
  if (training) build_training(config);
  executor_ = std::make_unique<Executor>(chunks_, *parts_, gradients_.get(), *mesh_, boundaries_);
  if (!training) return;
  if (stand_ins != nullptr) executor_->before_action = stand_ins->before_action;
  plan_ = make_plan(static_cast<int>(setup_.microbatches), true);
  if (communicator_ != nullptr && stand_ins == nullptr) {
    agree_plans(plan_, *mesh_, *arguments.store, ms(config.comm.init_timeout_s));
  }
  Context cx = context();
  gradients_->zero(cx);
}

void Session::build_training(const RunConfig& config) {
  gradients_ = std::make_unique<GradientBuffer>(parts_->parameters(),
                                                precision_of(config.precision.main),
                                                config.parallel.bucket_elements,
                                                *device_);
  partial_ = std::make_unique<PartialGradients>(parts_->parameters(), *mesh_, *device_);
  loader_ = std::make_unique<BatchLoader>(*setup_.dataset, *parts_, setup_.batch, *mesh_, *device_);

  const std::vector<Parameter*> parameters = parts_->parameter_list();
  OptimizerArguments optimizer_arguments;
  optimizer_arguments.parameters = parameters;
  optimizer_arguments.mesh = mesh_.get();
  optimizer_arguments.device = device_.get();
  optimizer_arguments.make_rule = [this](const Component<UpdateRule>& rule) {
    RuleArguments for_rule{device_.get()};
    return maker_.make(rule, for_rule);
  };
  optimizer_ = maker_.make(config.optimizer, optimizer_arguments);
  losses_ = std::make_unique<StepLosses>(*parts_, config.run.log_every_steps, *device_);
  validation_ = std::make_unique<StepLosses>(*parts_, 1, *device_);

  scalars_ = allocate(*device_, {step_scalar::kCount}, DType::f64, Category::optimizer);
  sum_squares_ = scalar(*device_, 0);
  stop_flag_ = scalar(*device_, 0);
  LrArguments lr_arguments{config.run.steps};
  const std::shared_ptr<LrSchedule> lr = maker_.make(config.lr, lr_arguments);
  std::vector<double> rates;
  for (i64 step = 1; step <= config.run.steps; ++step) rates.push_back(lr->rate(step));
  rates_ = allocate(*device_, {config.run.steps}, DType::f64, Category::optimizer);
  device_->write(rates_, rates.data());
  set_steps(0, 0);
}

Session::~Session() = default;

i64 Session::updates() const {
  return static_cast<i64>(read_values(*device_, scalars_)[step_scalar::kSteps]);
}

void Session::set_steps(i64 steps, i64 updates) {
  steps_ = steps;
  std::vector<double> values(step_scalar::kCount, 0.0);
  values[step_scalar::kSteps] = static_cast<double>(updates);
  values[step_scalar::kLossScale] = 1;
  device_->write(scalars_, values.data());
}

Plan Session::make_plan(int microbatches, bool training) const {
  PipelineShape shape = shape_of(
      *setup_.schedule, static_cast<int>(mesh_->size(Axis::pipeline)), microbatches, training);
  shape.rank = static_cast<int>(mesh_->coordinate(Axis::pipeline));
  std::vector<PhaseInfo> phases;
  for (const Chunk& chunk : chunks_) {
    phases.insert(phases.end(), chunk.infos().begin(), chunk.infos().end());
  }
  std::vector<std::vector<int>> buckets;
  if (gradients_ != nullptr) buckets = gradients_->bucket_layers();
  mark_recomputed(phases, setup_.model->layers(), config().recompute);
  const StandIns* stand_ins = arguments_.stand_ins;
  Plan plan = training && stand_ins != nullptr && stand_ins->pipeline != nullptr
                  ? lower(*stand_ins->pipeline, shape.rank, std::move(phases), buckets)
                  : lower(*setup_.schedule, shape, std::move(phases), buckets);
  verify(plan);
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    const int built = stages_.stage_of_chunk(shape.rank, chunk);
    const int planned = plan.stages[static_cast<std::size_t>(chunk)];
    require(built == planned,
            "chunk {} of pipeline rank {} was at stage {} when the model was built and is at "
            "stage {} now: a schedule's place() depends on stages and chunks, rank and chunk only",
            chunk,
            shape.rank,
            built,
            planned);
  }
  return plan;
}

Context Session::context() {
  Context cx;
  cx.device = device_.get();
  cx.ops = ops_.get();
  cx.stream = &device_->stream();
  cx.pool = &device_->pool();
  cx.tape = &tape_;
  cx.mesh = mesh_.get();
  cx.sink = losses_.get();
  cx.loss_scale = loss_scale_;
  return cx;
}

void Session::train_step(const std::function<void()>& inspect) {
  Context cx = context();
  const i64 global = config().batch.global;
  const std::vector<i64> weights = loader_->prepare(
      SampleSet::train, steps_ * global, global, static_cast<int>(setup_.microbatches));
  losses_->begin(cx, weights, mesh_->data_context());
  executor_->train(
      cx,
      plan_,
      [&](Context& c, int microbatch, Bundle& bundle) { loader_->load(c, microbatch, bundle); },
      [&](Context& c) {
        partial_->sum(c);
        shared_->sum(c);
        if (inspect) inspect();
        update(c);
      });
  losses_->keep(cx, scalars_);
  for (Chunk& chunk : chunks_) chunk.end_step(cx);
  ++steps_;
}

void Session::update(Context& cx) {
  cx.category = Category::workspace;
  FillArgs clear{sum_squares_.arg(), 0};
  ops::run(cx, ops_->fill, clear);
  optimizer_->sum_squares(cx, sum_squares_);
  mesh_->model()
      .all_reduce(*cx.stream, sum_squares_, ReduceOp::sum, "gradient norm")
      .wait(*cx.stream);
  StepScalarsArgs args{sum_squares_.arg(), rates_.arg(), scalars_.arg(), optimizer_->clip()};
  ops::run(cx, ops_->step_scalars, args);
  optimizer_->step(cx, scalars_);
}

std::vector<StepLosses::Row> Session::losses() {
  Context cx = context();
  return losses_->flush(cx, *mesh_);
}

double Session::validate(i64 samples) {
  Context cx = context();
  cx.sink = validation_.get();
  int microbatches = loader_->microbatches(samples);
  // Schedules may want certain numbers of microbatches: those of a training step are known to do.
  int round = microbatches;
  if (stages_.last() > 0) {
    round = static_cast<int>(setup_.microbatches);
    microbatches = (microbatches + round - 1) / round * round;
  }
  const std::vector<i64> weights =
      loader_->prepare(SampleSet::validation, 0, samples, microbatches);
  validation_->begin(cx, weights, mesh_->data_context());
  const Plan plan = make_plan(round, false);
  for (int first = 0; first < microbatches; first += round) {
    executor_->evaluate(cx, plan, [&](Context& c, int microbatch, Bundle& bundle) {
      loader_->load(c, first + microbatch, bundle);
    });
  }
  validation_->keep(cx, scalars_);
  return validation_->flush(cx, *mesh_).at(0).loss;
}

std::vector<float> Session::logits(const std::vector<i32>& tokens, i64 position) {
  require(mesh_->world_size() == 1, "logits are for one rank");
  Context cx = context();
  const i64 n = setup_.batch.sequence;
  std::vector<i64> ids(static_cast<std::size_t>(n), 0), rows = ids, positions = ids;
  for (i64 i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (at < tokens.size()) ids[at] = tokens[at];
    rows[at] = row_id(0, i);
    positions[at] = i;
  }
  const auto load = [&](Context& c, int, Bundle& bundle) {
    const auto put = [&](std::string_view name, const std::vector<i64>& values) {
      const Tensor tensor = c.empty({n}, DType::i64);
      device_->write(tensor, values.data());
      bundle[Slot{parts_->slot(name)}] = tensor;
    };
    put("tokens", ids);
    put("rows", rows);
    put("positions", positions);
  };
  std::vector<float> values;
  executor_->evaluate(cx, make_plan(1, false), load, [&](Context&, int, Bundle& bundle) {
    const Tensor all = bundle[Slot{parts_->slot(Model::kLogitsSlot)}];
    const Tensor row = all.slice(0, position, 1).slice(1, 0, setup_.model->vocabulary());
    const std::vector<double> exact = read_values(*device_, row);
    values.assign(exact.begin(), exact.end());
  });
  return values;
}

void Session::abort(std::string_view reason) noexcept {
  if (communicator_ == nullptr) return;
  communicator_->abort(reason);
  constexpr std::size_t kShown = 4;  // a group; the newest say where the rank was
  for (const auto& group : mesh_->all()) {
    const std::vector<std::string> lines = group->flight_record();
    for (std::size_t i = lines.size() - std::min(lines.size(), kShown); i < lines.size(); ++i) {
      log_info("rank {}: {}", mesh_->rank(), lines[i]);
    }
  }
}

bool Session::any_rank(bool stop) {
  double flag = stop ? 1 : 0;
  if (mesh_->world_size() == 1) return stop;
  device_->write(stop_flag_, &flag);
  mesh_->world()
      .all_reduce(device_->stream(), stop_flag_, ReduceOp::max, "stop flag")
      .wait(device_->stream());
  device_->read(stop_flag_, &flag);
  return flag > 0;
}

}  // namespace tessera
