#include "tests/unit/schedule/plan_machine.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::testing {

namespace {

u64 mix(u64 a, u64 b) {
  a ^= b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2);
  a *= 0xff51afd7ed558ccdULL;
  return a ^ (a >> 33);
}

u64 forward_of(u64 input, int stage, int local) {
  return mix(mix(input, static_cast<u64>(stage) + 1), static_cast<u64>(local) + 100);
}
u64 backward_of(u64 gradient, u64 activation) { return mix(gradient, mix(activation, 7)); }
u64 sample(int microbatch) { return static_cast<u64>(microbatch) + 1000; }
constexpr u64 kLoss = 5;

}  // namespace

PlanMachine::PlanMachine(std::span<const Plan> plans, bool rendezvous, u64 seed)
    : plans_(plans),
      rendezvous_(rendezvous),
      random_(seed),
      ranks_(plans.size()),
      posted_(plans.size()) {}

void PlanMachine::wrong(int rank, const std::string& what) {
  if (!wrong_.empty()) return;
  const Plan& plan = plans_[static_cast<std::size_t>(rank)];
  const std::size_t at = ranks_[static_cast<std::size_t>(rank)].next;
  wrong_ =
      fmt::format("rank {} action {} ({}): {}", rank, at, plan.text(plan.actions.at(at)), what);
}

std::string PlanMachine::run() {
  while (wrong_.empty()) {
    std::vector<int> order(ranks_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::ranges::shuffle(order, random_);
    const auto moved = std::ranges::find_if(order, [&](int rank) { return step(rank); });
    if (moved == order.end()) break;
  }
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].next < plans_[rank].actions.size()) wrong(static_cast<int>(rank), "stuck");
  }
  if (wrong_.empty()) compare();
  return wrong_;
}

bool PlanMachine::completes(int rank, int exchange, bool sends) const {
  for (const Posted& message : posted_[static_cast<std::size_t>(rank)].at(exchange)) {
    if (message.send && !sends) continue;
    const auto found = channels_.find(message.send ? std::pair(rank, message.peer)
                                                   : std::pair(message.peer, rank));
    const bool ended = message.send ? !rendezvous_ || found->second.receives > message.at
                                    : found->second.sent.size() > message.at;
    if (!ended) return false;
  }
  return true;
}

void PlanMachine::arrive(int rank, int exchange) {
  for (const Posted& message : posted_[static_cast<std::size_t>(rank)].at(exchange)) {
    if (message.send) continue;
    ranks_[static_cast<std::size_t>(rank)].arrived[message.edge] =
        channels_[{message.peer, rank}].sent[message.at];
  }
}

bool PlanMachine::step(int rank) {
  const Plan& plan = plans_[static_cast<std::size_t>(rank)];
  Rank& state = ranks_[static_cast<std::size_t>(rank)];
  if (state.next >= plan.actions.size()) return false;
  const PlanAction& action = plan.actions[state.next];
  for (const int before : action.after) {
    if (plan.actions.at(static_cast<std::size_t>(before)).kind != PlanAction::Exchange) continue;
    if (!posted_[static_cast<std::size_t>(rank)].contains(before) ||
        !completes(rank, before, false)) {
      return false;
    }
    arrive(rank, before);
  }
  for (const int exchange : action.released) {
    if (!posted_[static_cast<std::size_t>(rank)].contains(exchange) ||
        !completes(rank, exchange, true)) {
      return false;
    }
  }
  for (const int exchange : action.released) state.sending.erase(exchange);
  if (action.kind == PlanAction::Exchange) {
    post(rank, action);
  } else if (action.kind <= PlanAction::Recompute) {
    compute(rank, action);
  } else if (action.kind == PlanAction::Reduce) {
    // One bucket a chunk, from the end of the model: as lower_all() makes them.
    state.reduced.insert(plan.shape.chunks - 1 - action.bucket);
  } else if (action.kind == PlanAction::Step) {
    if (!state.sending.empty()) wrong(rank, "leaves an exchange open");
    if (static_cast<int>(state.reduced.size()) != plan.shape.chunks) {
      wrong(rank, "steps with gradients that are not reduced");
    }
  }
  if (wrong_.empty()) ++state.next;
  return wrong_.empty();
}

void PlanMachine::post(int rank, const PlanAction& action) {
  const int index = static_cast<int>(ranks_[static_cast<std::size_t>(rank)].next);
  const Plan& plan = plans_[static_cast<std::size_t>(rank)];
  std::vector<Posted>& list = posted_[static_cast<std::size_t>(rank)][index];
  if (!action.sends.empty()) ranks_[static_cast<std::size_t>(rank)].sending.insert(index);
  for (const PlanAction::Message& m : action.sends) {
    const auto chunk = std::ranges::find(plan.stages, m.stage);
    if (chunk == plan.stages.end()) return wrong(rank, "sends another's value");
    const int c = static_cast<int>(chunk - plan.stages.begin());
    Channel& channel = channels_[{rank, m.peer}];
    list.push_back({channel.sent.size(), m.peer, true, {m.forward, m.microbatch, m.stage}});
    channel.sent.push_back(leaving(rank, m.microbatch, c, m.forward));
  }
  for (const PlanAction::Message& m : action.receives) {
    Channel& channel = channels_[{m.peer, rank}];
    list.push_back({channel.receives++, m.peer, false, {m.forward, m.microbatch, m.stage}});
  }
}

std::vector<int> PlanMachine::phases_of(const Plan& plan, int chunk) const {
  std::vector<int> phases;
  for (std::size_t i = 0; i < plan.phases.size(); ++i) {
    if (plan.phases[i].chunk == chunk) phases.push_back(static_cast<int>(i));
  }
  return phases;
}

u64 PlanMachine::leaving(int rank, int microbatch, int chunk, bool forward) {
  const Plan& plan = plans_[static_cast<std::size_t>(rank)];
  Pass& pass = ranks_[static_cast<std::size_t>(rank)].passes[{microbatch, chunk}];
  if (forward) {
    if (!pass.done) wrong(rank, "passes on what is not computed");
    return pass.output;
  }
  const auto found = pass.gradients.find(phases_of(plan, chunk).front());
  if (found == pass.gradients.end()) {
    wrong(rank, "passes on a gradient that is not computed");
    return 0;
  }
  return found->second;
}

u64 PlanMachine::entering(int rank, const PlanAction& action, bool forward) {
  const Plan& plan = plans_[static_cast<std::size_t>(rank)];
  const int own = plan.stages[static_cast<std::size_t>(action.chunk)];
  const int stage = own + (forward ? -1 : 1);
  if (stage < 0) return sample(action.microbatch);
  if (stage >= plan.shape.virtual_stages()) return kLoss;
  const auto chunk = std::ranges::find(plan.stages, stage);
  if (chunk != plan.stages.end()) {
    return leaving(rank, action.microbatch, static_cast<int>(chunk - plan.stages.begin()), forward);
  }
  auto& arrived = ranks_[static_cast<std::size_t>(rank)].arrived;
  const auto found = arrived.find({forward, action.microbatch, stage});
  if (found == arrived.end()) {
    wrong(rank, "reads what did not arrive");
    return 0;
  }
  return found->second;
}

void PlanMachine::compute(int rank, const PlanAction& action) {
  const Plan& plan = plans_[static_cast<std::size_t>(rank)];
  Rank& state = ranks_[static_cast<std::size_t>(rank)];
  const std::vector<int> phases = phases_of(plan, action.chunk);
  const auto at = std::ranges::find(phases, action.phase);
  if (at == phases.end()) return wrong(rank, "no such phase");
  const int local = static_cast<int>(at - phases.begin());
  Pass& pass = state.passes[{action.microbatch, action.chunk}];
  const int stage = plan.stages[static_cast<std::size_t>(action.chunk)];
  const PhaseInfo& info = plan.phases[static_cast<std::size_t>(action.phase)];
  if (action.kind == PlanAction::F) {
    u64 input = pass.output;
    if (local == 0) {
      input = entering(rank, action, true);
    } else if (!pass.inputs.contains(phases[static_cast<std::size_t>(local) - 1])) {
      return wrong(rank, "the phase before it did not run");
    }
    if (pass.inputs.contains(action.phase)) return wrong(rank, "runs forward twice");
    pass.inputs[action.phase] = input;
    pass.output = forward_of(input, stage, local);
    if (!info.recompute) pass.kept[action.phase] = pass.output;
    pass.done = local + 1 == static_cast<int>(phases.size());
    return;
  }
  if (action.kind == PlanAction::Recompute) {
    pass.kept[action.phase] = forward_of(pass.inputs[action.phase], stage, local);
    return;
  }
  if (!pass.kept.contains(action.phase)) return wrong(rank, "its activations are not there");
  if (action.kind != PlanAction::Bw) {
    u64 gradient = 0;
    if (local + 1 == static_cast<int>(phases.size())) {
      gradient = entering(rank, action, false);
    } else {
      const auto next = pass.gradients.find(phases[static_cast<std::size_t>(local) + 1]);
      if (next == pass.gradients.end()) return wrong(rank, "the phase behind it did not run");
      gradient = next->second;
    }
    if (pass.gradients.contains(action.phase)) return wrong(rank, "runs backward twice");
    pass.gradients[action.phase] = backward_of(gradient, pass.kept[action.phase]);
  }
  if (action.kind == PlanAction::Bi) return;
  if (!pass.gradients.contains(action.phase)) return wrong(rank, "has no gradient yet");
  if (state.reduced.contains(info.layer)) wrong(rank, "adds to what was reduced");
  state.weights[action.phase][action.microbatch].insert(pass.gradients[action.phase]);
}

// Compares with the pass of each microbatch through all stages, one after the other.
void PlanMachine::compare() {
  const PipelineShape& shape = plans_[0].shape;
  std::map<int, std::pair<std::size_t, int>> owner;  // rank and chunk, by stage
  for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      owner[plans_[rank].stages[static_cast<std::size_t>(chunk)]] = {rank, chunk};
    }
  }
  for (int microbatch = 0; microbatch < shape.microbatches; ++microbatch) {
    std::vector<std::tuple<std::size_t, int, u64>> activations;  // rank, phase, value
    u64 value = sample(microbatch);
    for (const auto& [stage, where] : owner) {
      const auto& [rank, chunk] = where;
      int local = 0;
      for (const int phase : phases_of(plans_[rank], chunk)) {
        value = forward_of(value, stage, local++);
        activations.emplace_back(rank, phase, value);
      }
      const Pass& pass = ranks_[rank].passes[{microbatch, chunk}];
      if (!pass.done || pass.output != value) {
        wrong_ = fmt::format("microbatch {} leaves stage {} wrong", microbatch, stage);
        return;
      }
    }
    if (!shape.training) continue;
    u64 gradient = kLoss;
    for (auto a = activations.rbegin(); a != activations.rend(); ++a) {
      const auto& [rank, phase, activation] = *a;
      gradient = backward_of(gradient, activation);
      if (ranks_[rank].weights[phase][microbatch] != std::multiset<u64>{gradient}) {
        wrong_ = fmt::format(
            "gradient of rank {} phase {} microbatch {} is wrong", rank, phase, microbatch);
        return;
      }
    }
  }
}

}  // namespace tessera::testing
