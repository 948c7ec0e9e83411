#include "kernel/plan/representative.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "kernel/checkpoint/rank_part.hpp"
#include "kernel/plan/fullest_replica.hpp"
#include "kernel/plan/group_names.hpp"
#include "kernel/plan/repetition.hpp"
#include "kernel/train/execution/train_step.hpp"
#include "kernel/train/run/training_state.hpp"

namespace tessera {

namespace {

// Counts what is sent in each group, also where it is replayed.
class TrafficCount {
 public:
  void started(const GroupSpec& group, const Collective& collective) {
    auto& [calls, bytes] = sent_[{group.name, static_cast<int>(collective.kind)}];
    ++calls;
    bytes += collective.input.bytes();
    for (const Transfer& transfer : collective.sends) bytes += transfer.tensor.bytes();
  }
  void clear() { sent_.clear(); }
  // Adds `times` what was sent between two moments.
  void repeat(const TrafficCount& from, const TrafficCount& to, i64 times) {
    for (const auto& [key, sent] : to.sent_) {
      const auto found = from.sent_.find(key);
      const auto [calls, bytes] = found == from.sent_.end() ? Sent() : found->second;
      sent_[key].first += times * (sent.first - calls);
      sent_[key].second += times * (sent.second - bytes);
    }
  }
  // Without what sent nothing; groups of the same ranks, which the mesh has several of, together.
  std::vector<Traffic> traffic(const Mesh& mesh, const Hardware& hardware) const {
    std::vector<Traffic> list;
    for (const auto& group : mesh.all()) {
      const std::string name = group->name();
      const std::string axes = shown_group(name.substr(0, name.find('[')), mesh.ranks());
      for (int kind = 0; kind <= static_cast<int>(CollectiveKind::barrier); ++kind) {
        const auto found = sent_.find({name, kind});
        if (found == sent_.end() || found->second.second == 0) continue;
        Traffic& traffic = at(list, axes, static_cast<CollectiveKind>(kind));
        traffic.size = group->size();
        traffic.within_host = hardware.within_host(group->members());
        traffic.calls += found->second.first;
        traffic.bytes += found->second.second;
      }
    }
    return list;
  }

 private:
  static Traffic& at(std::vector<Traffic>& list, const std::string& axes, CollectiveKind kind) {
    const auto found = std::ranges::find_if(
        list, [&](const Traffic& t) { return t.axes == axes && t.kind == kind; });
    if (found != list.end()) return *found;
    return list.emplace_back(Traffic{.axes = axes, .kind = kind});
  }
  using Sent = std::pair<i64, i64>;
  std::map<std::pair<std::string, int>, Sent> sent_;
};

// Memory that communicators take for collectives, as if each rank waited for its own.
class Scratch {
 public:
  Scratch(const PlanArguments& arguments, const RunSetup& setup) : hardware_(arguments.hardware) {
    std::vector<std::string> hosts;
    for (i64 rank = 0; rank < setup.layout.world; ++rank) {
      hosts.push_back(fmt::format("{}", hardware_.host(rank)));
    }
    const CommunicatorChoice choice =
        choose_communicators(setup.config->comm.communicator.type, hosts);
    within_ = arguments.plugins->find(Communicator::kKind, choice.type);
    between_ = choice.between.empty()
                   ? within_
                   : arguments.plugins->find(Communicator::kKind, choice.between);
  }
  void started(u64 id, const GroupSpec& group, const Collective& collective) {
    const ComponentInfo* by = hardware_.within_host(group.members) ? within_ : between_;
    if (by == nullptr || by->scratch_bytes == nullptr) return;
    const i64 bytes = by->scratch_bytes(collective, static_cast<int>(group.members.size()));
    taken_ += under_way_[id] = bytes;
    most_ = std::max(most_, taken_);
  }
  void waited(u64 id) {
    const auto found = under_way_.find(id);
    if (found == under_way_.end()) return;
    taken_ -= found->second;
    under_way_.erase(found);
  }
  i64 most() const { return most_; }

 private:
  const Hardware& hardware_;
  const ComponentInfo *within_ = nullptr, *between_ = nullptr;
  std::map<u64, i64> under_way_;  // by collective
  i64 taken_ = 0, most_ = 0;
};

// The pipelines whose plans are run: that of the step, or one of fewer microbatches in its place.
struct Played {
  const Pipeline& whole;
  const Pipeline* few = nullptr;  // nullptr: none stands for it
};

// What a step may still raise.
bool same(const MemoryStats& a, const MemoryStats& b) {
  return a.bytes == b.bytes && a.peak == b.peak && a.total_peak == b.total_peak &&
         a.reserved == b.reserved && a.touched == b.touched && a.host_blocks == b.host_blocks &&
         a.system_calls == b.system_calls;
}

// Compares a rank's memory and traffic where a stretch of its plan comes again.
class SteadyWatch final : public ActionObserver {
 public:
  SteadyWatch(StepMeter& meter, const TrafficCount& sent, const Scratch& scratch)
      : meter_(meter), sent_(sent), scratch_(scratch) {}
  void watch(const Repetition& stretch, const Device& device) {
    stretch_ = stretch;
    device_ = &device;
  }
  // Before each step.
  void begin() { index_ = 0; }
  // Since watch(): is a further stretch what the last one was?
  bool steady() const { return steady_; }
  // What was sent before the last stretch of the last step, and after it.
  const TrafficCount& before_last() const { return before_last_; }
  const TrafficCount& after_last() const { return after_last_; }

  void before(const Plan& plan, const PlanAction& action) override {
    meter_.before(plan, action);
    if (device_ != nullptr) look();
    ++index_;
  }
  void ready(const Plan& plan, const PlanAction& action) override { meter_.ready(plan, action); }

 private:
  void look() {
    const auto [end, period, times] = stretch_;
    if (index_ == end - period) before_last_ = sent_;
    if (index_ == end) after_last_ = sent_;
    if (index_ != end && index_ != end - period && index_ + 2 * period != end) return;
    const MemoryStats now = device_->memory();
    const bool first = index_ + 2 * period == end;
    if (!first && (!same(now, memory_) || scratch_.most() != most_)) steady_ = false;
    memory_ = now;
    most_ = scratch_.most();
  }

  StepMeter& meter_;
  const TrafficCount& sent_;
  const Scratch& scratch_;
  Repetition stretch_;
  const Device* device_ = nullptr;
  std::size_t index_ = 0;
  bool steady_ = true;
  MemoryStats memory_;
  i64 most_ = 0;
  TrafficCount before_last_, after_last_;
};

// Costs of the many microbatches' actions; nothing where the last stretch cost not what the one
// before it did.
std::optional<std::vector<StepMeter::Cost>> repeated(const std::vector<StepMeter::Cost>& few,
                                                     const Repetition& stretch) {
  const auto end = few.begin() + static_cast<std::ptrdiff_t>(stretch.end);
  const auto period = static_cast<std::ptrdiff_t>(stretch.period);
  if (!std::equal(end - period, end, end - 2 * period)) return {};
  std::vector<StepMeter::Cost> all(few.size() + stretch.times * stretch.period);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = few[stretch.source(i)];
  return all;
}

bool any_graph(const Plan& plan) {
  return std::ranges::any_of(plan.phases, [](const PhaseInfo& info) { return info.graph >= 0; });
}

std::vector<std::string> layers_of(const RunSetup& setup, const Plan& plan) {
  const std::vector<ModelLayer> all = setup.model->layers();
  std::vector<std::string> names;
  int last = -1;
  for (const PhaseInfo& phase : plan.phases) {
    if (phase.layer == std::exchange(last, phase.layer) || phase.layer < 0) continue;
    names.push_back(all[static_cast<std::size_t>(phase.layer)].name);
  }
  return names;
}

// `as`: the rank of the class that is run. Microbatches that come again are run once, where memory
// and costs show that each of them is like the one before.
Representative run_representative(const PlanArguments& arguments,
                                  const RunSetup& setup,
                                  const RankClass& of,
                                  i64 as,
                                  const std::shared_ptr<Device>& stands_for,
                                  const Played& played,
                                  Surveys& surveys) {
  StepMeter meter(arguments.hardware);
  Scratch scratch(arguments, setup);
  TrafficCount sent;
  DryEvents events;
  const MetaDevice* device = nullptr;
  events.launched = [&](const Kernel& kernel, const void* args) {
    const bool replayed = setup.graphs->whole_step() || (device != nullptr && device->replaying());
    meter.launched(kernel, args, replayed);
  };
  events.replayed = [&] { meter.graph_begins(); };
  events.collectives.counts_only = true;
  events.collectives.started = [&](u64 id, const GroupSpec& group, const Collective& collective) {
    meter.started(id, group, collective);
    scratch.started(id, group, collective);
    sent.started(group, collective);
  };
  events.collectives.waited = [&](u64 id) {
    meter.waited(id);
    scratch.waited(id);
  };
  const Rank rank = dry_rank(setup.layout, as, stands_for, std::move(events), arguments.imbalance);
  device = dynamic_cast<const MetaDevice*>(rank.device.get());
  PlacedModel model(rank, setup, {.surveys = &surveys});
  SteadyWatch watch(meter, sent, scratch);
  const Pipeline& run = played.few != nullptr ? *played.few : played.whole;
  TrainStep step(rank,
                 model,
                 setup,
                 {.observer = &watch,
                  .pipeline = &run,
                  .microbatches = run.orders.shape.microbatches,
                  .room = static_cast<int>(setup.microbatches)});
  const i64 fullest = fullest_replica(*rank.mesh, model.memory(), step.optimizer());
  if (fullest != as) {
    return run_representative(arguments, setup, of, fullest, stands_for, played, surveys);
  }
  const auto run_all = [&] {
    return run_representative(arguments, setup, of, as, stands_for, {played.whole}, surveys);
  };
  std::optional<Repetition> stretch;
  Plan whole = step.plan();
  if (played.few != nullptr) {
    whole = model.plan(played.whole, step.bucket_use());
    if (!any_graph(whole)) stretch = repetition(whole, step.plan());
    if (!stretch) return run_all();
    watch.watch(*stretch, *rank.device);
  }

  Representative out;
  out.use.add(setup, model, step.plan());
  if (setup.graphs->whole_step()) setup.graphs->check(out.use.blocks);  // before it is captured

  step.run();  // sets up; the next one is like all that follow
  step.losses();
  watch.begin();
  GraphUse graphs;
  if (setup.graphs->whole_step()) {
    graphs = graph_use_of(step, rank);
    step.losses();
    sent.clear();
    meter.begin_step();
    meter.graph_begins();
    step.run_observed();  // action by action, with the latency of one graph
  } else {
    sent.clear();
    meter.begin_step();
    graphs = graph_use_of(step, rank);
  }
  meter.end_step();
  out.actions = meter.actions();
  if (stretch) {
    auto all = repeated(out.actions, *stretch);
    if (!all || !watch.steady()) return run_all();
    for (std::size_t i = 0; i < stretch->period; ++i) {
      graphs.launches += static_cast<i64>(stretch->times) *
                         out.actions[stretch->end - stretch->period + i].launches;
    }
    out.actions = std::move(*all);
    sent.repeat(watch.before_last(), watch.after_last(), static_cast<i64>(stretch->times));
  }

  out.of = of;
  out.layers = layers_of(setup, step.plan());
  for (const auto& entry : model.parts().parameters()) {
    out.parameters += entry.parameter->local.elements();
  }
  out.model_elements = model.parameter_elements();
  out.active_elements = model.active_elements();
  out.memory = rank.device->memory();
  out.scratch = scratch.most();
  if (setup.config->checkpoint.save && setup.config->checkpoint.asynchronous) {
    const TrainingState state(rank, model, step, setup);
    out.snapshot = RankPart(*rank.mesh, state.tensors()).most_bytes();
  }
  out.on_host = rank.device->memory_kind() == kHostMemory;
  out.traffic = sent.traffic(*rank.mesh, arguments.hardware);
  out.graphs = graphs;
  out.readbacks = step.readbacks(whole);
  out.microbatches = run.orders.shape.microbatches;
  out.plan = std::move(whole);
  out.prologue = meter.prologue();
  out.total = StepMeter::total(out.prologue, out.actions);
  return out;
}

}  // namespace

std::vector<Representative> run_representatives(const PlanArguments& arguments,
                                                const RunSetup& setup,
                                                const std::vector<RankClass>& classes,
                                                const Pipeline& pipeline) {
  std::vector<Representative> done(classes.size());
  std::vector<std::exception_ptr> errors(classes.size());
  std::atomic<std::size_t> next = 0;
  Surveys surveys(setup);
  const int few = enough_microbatches(
      *setup.schedule, pipeline.orders.shape.ranks, pipeline.orders.shape.microbatches);
  std::optional<Pipeline> of_few;
  const bool fewer = few < pipeline.orders.shape.microbatches && !arguments.every_microbatch;
  if (fewer && !setup.graphs->whole_step()) {
    of_few.emplace(*setup.schedule,
                   shape_of(*setup.schedule, pipeline.orders.shape.ranks, few, true));
  }
  const Played played{pipeline, of_few ? &*of_few : nullptr};
  const auto work = [&] {
    std::shared_ptr<Device> device;  // of this thread, as a rank has its own
    for (;;) {
      const std::size_t i = next++;
      if (i >= classes.size()) return;
      try {
        if (device == nullptr) {
          device = make_device(rank_spec_of(setup), {.threads = arguments.threads});
        }
        const RankClass& of = classes[i];
        done[i] = run_representative(arguments, setup, of, of.first, device, played, surveys);
      } catch (...) {
        errors[i] = std::current_exception();
        next = classes.size();
        return;
      }
    }
  };
  const auto most = std::max<std::size_t>(1, static_cast<std::size_t>(arguments.workers));
  std::vector<std::jthread> workers;
  for (std::size_t i = 1; i < std::min(most, classes.size()); ++i) workers.emplace_back(work);
  work();
  workers.clear();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  ModelUse use;
  for (const Representative& of : done) use.add(of.use);
  ProblemList problems;
  check_use(setup, use, problems);
  problems.throw_all();
  return done;
}

}  // namespace tessera
