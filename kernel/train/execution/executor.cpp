#include "kernel/train/execution/executor.hpp"

#include <utility>

#include "kernel/model/prepared_weights.hpp"
#include "kernel/schedule/lower.hpp"
#include "kernel/train/execution/model_graphs.hpp"
#include "tessera/error.hpp"
#include "tessera/ops.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

namespace {

const PhaseInfo& info_of(const Plan& plan, const PlanAction& action) {
  return plan.phases.at(static_cast<std::size_t>(action.phase));
}

int stage_of(const Plan& plan, const PlanAction& action) {
  return plan.stages.at(static_cast<std::size_t>(action.chunk));
}

Half half_of(PlanAction::Kind kind) {
  if (kind == PlanAction::Bi) return Half::input;
  return kind == PlanAction::Bw ? Half::weight : Half::both;
}

}  // namespace

Executor::Executor(std::vector<Chunk>& chunks,
                   ModelParts& parts,
                   GradientSync* gradients,
                   const Mesh& mesh,
                   const std::vector<Boundary>& boundaries)
    : chunks_(chunks),
      parts_(parts),
      gradients_(gradients),
      last_stage_(static_cast<int>(boundaries.size())),
      mail_(mesh.group(Axis::pipeline), boundaries) {
  for (const Boundary& boundary : boundaries) {
    std::vector<Slot>& slots = boundary_slots_.emplace_back();
    for (const BoundarySlot& slot : boundary) slots.push_back({parts_.slot(slot.name)});
  }
}

std::unique_ptr<LiveChunk>& Executor::live(const Plan& plan, const PlanAction& action) {
  const i64 number = i64{action.microbatch} * plan.shape.chunks + action.chunk;
  const auto index = static_cast<std::size_t>(number);
  if (live_.size() <= index) live_.resize(index + 1);
  return live_[index];
}

void Executor::train(Context cx, const Plan& plan, const Load& load, const Step& step) {
  require(gradients_ != nullptr, "this executor is for evaluation only");
  run(cx, plan, {load, step, {}});
}

void Executor::evaluate(Context cx, const Plan& plan, const Load& load, const Done& done) {
  cx.tape = nullptr;
  cx.mode = Mode::evaluate;
  run(cx, plan, {load, {}, done});
}

void Executor::run(Context& cx, const Plan& plan, const Calls& calls) {
  for (int index = 0; index < static_cast<int>(plan.actions.size()); ++index) {
    const PlanAction& action = plan.actions[static_cast<std::size_t>(index)];
    observer_->before(plan, action);
    try {
      act(cx, plan, index, calls);
      observer_->after(plan, action);
    } catch (...) {
      observer_->failed(plan, action);
      throw;
    }
  }
  mail_.finish(cx);
}

void Executor::act(Context& cx, const Plan& plan, int index, const Calls& calls) {
  const PlanAction& action = plan.actions[static_cast<std::size_t>(index)];
  for (const int before : action.after) {
    const PlanAction& earlier = plan.actions[static_cast<std::size_t>(before)];
    if (earlier.kind == PlanAction::Exchange) mail_.wait(cx, before);
    if (earlier.kind == PlanAction::Gather) gradients_->wait_gathered(cx, earlier.bucket);
  }
  for (const int exchange : action.released) mail_.release(cx, exchange);
  arrive(cx, plan, action);
  observer_->ready(plan, action);
  switch (action.kind) {
    case PlanAction::Exchange:
      mail_.post(cx, index, action);
      break;
    case PlanAction::Reduce:
      gradients_->reduce(cx, action.bucket);
      break;
    case PlanAction::Gather:
      gradients_->gather(cx, action.bucket);
      break;
    case PlanAction::Prepare:
      require(weights_ != nullptr, "this executor has no weights to prepare");
      weights_->prepare(cx, action.bucket);
      break;
    case PlanAction::Step:
      gradients_->finish(cx);
      calls.step(cx);
      break;
    default:
      compute(cx, plan, action, calls);
  }
}

// The phase would wait for the same as it begins: here an observer sees that it is a wait.
void Executor::arrive(Context& cx, const Plan& plan, const PlanAction& action) {
  if (action.phase < 0) return;
  const int phase = info_of(plan, action).phase;
  switch (action.kind) {
    case PlanAction::F:
      if (phase > 0) live(plan, action)->arrive(cx, phase);  // its bundle is made with the first
      return;
    case PlanAction::Recompute:
      live(plan, action)->arrive_again(cx, phase);
      return;
    case PlanAction::B:
    case PlanAction::Bi:
      live(plan, action)->arrive_back(cx, phase);
      return;
    default:
      return;
  }
}

void Executor::compute(Context& cx,
                       const Plan& plan,
                       const PlanAction& action,
                       const Calls& calls) {
  switch (action.kind) {
    case PlanAction::F:
      forward(cx, plan, action, calls);
      return;
    case PlanAction::Recompute:
      recompute(cx, plan, action);
      return;
    case PlanAction::B:
    case PlanAction::Bi:
    case PlanAction::Bw:
      backward(cx, plan, action);
      return;
    default:
      fail("the executor has no \"{}\"", action_name(action.kind));
  }
}

void Executor::forward(Context& cx,
                       const Plan& plan,
                       const PlanAction& action,
                       const Calls& calls) {
  const Chunk& chunk = chunks_.at(static_cast<std::size_t>(action.chunk));
  const int stage = stage_of(plan, action), phase = info_of(plan, action).phase;
  std::unique_ptr<LiveChunk>& at = live(plan, action);
  if (phase == 0) {
    at = std::make_unique<LiveChunk>(parts_.bundle(), chunk.phases());
    calls.load(cx, action.microbatch, at->bundle());
    if (graphs_ != nullptr && cx.tape != nullptr) {
      graphs_->attach(action.microbatch, action.chunk, *at);
    }
    if (stage > 0) receive_activations(*at, action.microbatch, stage);
  }
  if (info_of(plan, action).recompute && cx.tape != nullptr) {
    at->forward_dropped(cx, phase, starts_recomputed_range(plan, action.phase));
  } else {
    at->forward(cx, phase);
  }
  if (phase + 1 < static_cast<int>(chunk.phases().size())) return;
  at->bundle().arrive(*cx.stream);
  if (stage < last_stage_) {
    send_activations(cx, *at, action.microbatch, stage);
  } else if (calls.done) {
    calls.done(cx, action.microbatch, at->bundle());
  }
  if (cx.tape == nullptr) at.reset();
}

void Executor::recompute(Context& cx, const Plan& plan, const PlanAction& action) {
  live(plan, action)
      ->recompute(cx,
                  info_of(plan, action).phase,
                  starts_recomputed_range(plan, action.phase),
                  ends_recomputed_range(plan, action.phase));
}

void Executor::backward(Context& cx, const Plan& plan, const PlanAction& action) {
  const Chunk& chunk = chunks_.at(static_cast<std::size_t>(action.chunk));
  const int stage = stage_of(plan, action), phase = info_of(plan, action).phase;
  const Half half = half_of(action.kind);
  std::unique_ptr<LiveChunk>& at = live(plan, action);
  if (half != Half::weight && phase + 1 == static_cast<int>(chunk.phases().size()) &&
      stage < last_stage_) {
    receive_gradients(*at, action.microbatch, stage);
  }
  at->backward(cx, phase, half);
  if (half != Half::weight && phase == 0 && stage > 0) {
    send_gradients(cx, *at, action.microbatch, stage);
  }
  if (at->finished()) at.reset();
}

void Executor::receive_activations(LiveChunk& to, int microbatch, int stage) {
  std::vector<Tensor> values = mail_.take({true, microbatch, stage - 1});
  for (std::size_t i = 0; i < values.size(); ++i) {
    to.receive(slots(stage - 1)[i], std::move(values[i]));
  }
}

// A graph slot takes its next microbatch as soon as this one is done here, while a slow peer may
// not have taken what is sent, or a neighbour on this rank still needs it.
Tensor Executor::leaving(Context& cx, Tensor tensor) const {
  if (graphs_ == nullptr || !graphs_->holds(tensor)) return tensor;
  Context for_copies = cx;
  for_copies.category = Category::communication;
  Tensor copy = for_copies.empty(tensor.shape(), tensor.dtype());
  ops::run(cx, CopyArgs{tensor.arg(), copy.arg()});
  return copy;
}

void Executor::send_activations(Context& cx, LiveChunk& from, int microbatch, int stage) {
  std::vector<Tensor> values;
  for (const Slot slot : slots(stage)) values.push_back(leaving(cx, from.give_up(slot)));
  mail_.put({true, microbatch, stage}, std::move(values));
}

void Executor::receive_gradients(LiveChunk& to, int microbatch, int stage) {
  std::vector<Tensor> gradients = mail_.take({false, microbatch, stage});
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    to.set_gradient(slots(stage)[i], std::move(gradients[i]));
  }
}

void Executor::send_gradients(Context& cx, LiveChunk& from, int microbatch, int stage) {
  std::vector<Tensor> gradients;
  const Boundary& boundary = mail_.boundary(stage - 1);
  for (std::size_t i = 0; i < boundary.size(); ++i) {
    Tensor gradient = from.take_gradient(cx, slots(stage - 1)[i]);
    if (!gradient.defined()) {  // nothing downstream needed it: zero
      gradient = cx.empty(boundary[i].shape, boundary[i].dtype);
      ops::run(cx, FillArgs{gradient.arg(), 0});
    }
    gradients.push_back(leaving(cx, std::move(gradient)));
  }
  mail_.put({false, microbatch, stage - 1}, std::move(gradients));
}

}  // namespace tessera
