#include "kernel/planner/representative.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "kernel/checkpoint/rank_part.hpp"
#include "kernel/dry/dry_rank.hpp"
#include "kernel/graph/graph_plan.hpp"
#include "kernel/planner/fullest_replica.hpp"
#include "kernel/planner/group_names.hpp"
#include "kernel/planner/repetition.hpp"
#include "kernel/planner/staged_blocks.hpp"
#include "kernel/planner/steady_watch.hpp"
#include "kernel/train/execution/train_step.hpp"
#include "kernel/train/run/training_state.hpp"
#include "kernel/train/setup/carried_memory.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

// Counts what is sent in each group, also where it is replayed.
class TrafficCount {
 public:
  // `again`: it is sent again by microbatches that are not run.
  void started(const GroupSpec& group, const Collective& collective, bool again) {
    const Key key{group.name, static_cast<int>(collective.kind)};
    i64 bytes = collective.input.bytes();
    for (const Transfer& transfer : collective.sends) {
      if (transfer.peer != group.index) bytes += transfer.tensor.bytes();  // as ProcessGroup counts
    }
    for (auto* counts : {&sent_, again ? &again_ : nullptr}) {
      if (counts == nullptr) continue;
      auto& [calls, all] = (*counts)[key];
      ++calls;
      all += bytes;
    }
  }
  void clear() {
    sent_.clear();
    again_.clear();
  }
  // Adds what was sent again, so many times.
  void repeat(i64 times) {
    for (const auto& [key, sent] : again_) {
      sent_[key].first += times * sent.first;
      sent_[key].second += times * sent.second;
    }
  }
  // Leaves out groups that sent nothing, and adds up the groups that have the same ranks.
  std::vector<Traffic> traffic(const Mesh& mesh, const Hardware& hardware) const {
    std::vector<Traffic> list;
    for (const auto& group : mesh.all()) {
      const std::string name = group->name();
      const std::string axes = shown_group(name.substr(0, name.find('[')), mesh.ranks());
      for (int kind = 0; kind <= static_cast<int>(CollectiveKind::barrier); ++kind) {
        const auto found = sent_.find({name, kind});
        if (found == sent_.end() || found->second.second == 0) continue;
        Traffic& traffic = at(list, axes, static_cast<CollectiveKind>(kind), group->lane());
        traffic.size = group->size();
        traffic.within_host = hardware.within_host(group->members());
        traffic.calls += found->second.first;
        traffic.bytes += found->second.second;
      }
    }
    return list;
  }

 private:
  static Traffic& at(std::vector<Traffic>& list,
                     const std::string& axes,
                     CollectiveKind kind,
                     CommLane lane) {
    const auto found = std::ranges::find_if(
        list, [&](const Traffic& t) { return t.axes == axes && t.kind == kind && t.lane == lane; });
    if (found != list.end()) return *found;
    return list.emplace_back(Traffic{.axes = axes, .kind = kind, .lane = lane});
  }
  using Key = std::pair<std::string, int>;
  std::map<Key, std::pair<i64, i64>> sent_, again_;
};

// Memory that communicators take for collectives, as if each rank waited for its own.
class Scratch {
 public:
  // None is counted where "auto" finds no communicator for the device: a plan needs none.
  Scratch(const PlanArguments& arguments, const RunSetup& setup, const Device& device)
      : hardware_(arguments.hardware) {
    const std::string& configured = setup.config->comm.communicator.type;
    AutoCommunicators by{configured, configured};
    if (configured == kAutoCommunicator) by = auto_communicators(setup, *arguments.plugins, device);
    between_ = arguments.plugins->find(Communicator::kKind, by.between);
    within_ =
        by.within.empty() ? between_ : arguments.plugins->find(Communicator::kKind, by.within);
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

// The pipeline of the step, and those of fewer microbatches that are run in its place.
class Pipelines {
 public:
  Pipelines(const RunSetup& setup, const Pipeline& whole) : setup_(setup), whole_(whole) {}
  const Pipeline& whole() const { return whole_; }
  int all() const { return whole_.orders.shape.microbatches; }
  int ranks() const { return whole_.orders.shape.ranks; }
  const Pipeline& of(int microbatches) {
    if (microbatches >= all()) return whole_;
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Pipeline>& made = made_[microbatches];
    if (made == nullptr) {
      const PipelineShape shape = shape_of(*setup_.schedule, ranks(), microbatches, true);
      made = std::make_unique<Pipeline>(*setup_.schedule, shape);
    }
    return *made;
  }

 private:
  const RunSetup& setup_;
  const Pipeline& whole_;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<Pipeline>> made_;
};

// Costs of the many microbatches' actions; nothing where the last stretch did not cost what the one
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

i64 launches_of(const std::vector<StepMeter::Cost>& actions, const Repetition& stretch) {
  i64 launches = 0;
  for (std::size_t i = stretch.end - stretch.period; i < stretch.end; ++i) {
    launches += actions[i].launches;
  }
  return launches;
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

// `as`: the rank of the class that is run. Launches `microbatches`; where they cannot stand for
// all, returns nothing and sets the number to try next.
std::optional<Representative> run_microbatches(const PlanArguments& arguments,
                                               const RunSetup& setup,
                                               const RankClass& of,
                                               i64 as,
                                               const std::shared_ptr<Device>& stands_for,
                                               Pipelines& pipelines,
                                               int& microbatches,
                                               Outlines& outlines) {
  StepMeter meter(arguments.hardware);
  Scratch scratch(arguments, setup, *stands_for);
  StagedBlocks blocks;
  TrafficCount sent;
  DryEvents events;
  SteadyWatch watch(meter);
  std::optional<Repetition> stretch;
  const MetaDevice* device = nullptr;
  events.launched = [&](const Kernel& kernel, const void* args) {
    watch.launched(kernel, args);
    const bool replayed = setup.graphs->whole_step() || (device != nullptr && device->replaying());
    meter.launched(kernel, args, replayed);
  };
  events.replayed = [&] { meter.graph_begins(); };
  events.collectives.counts_only = true;
  events.collectives.capturable = !setup.config->comm.staged;
  events.collectives.started = [&](u64 id, const GroupSpec& group, const Collective& collective) {
    meter.started(id, group, collective);
    scratch.started(id, group, collective);
    if (setup.config->comm.staged) blocks.started(id, group, collective);
    sent.started(group, collective, stretch && watch.in_last(*stretch));
    watch.started(collective);
  };
  events.collectives.waited = [&](u64 id) {
    meter.waited(id);
    scratch.waited(id);
    blocks.waited(id);
  };
  const Rank rank = dry_rank(setup.layout, as, stands_for, std::move(events), arguments.imbalance);
  device = dynamic_cast<const MetaDevice*>(rank.device.get());
  PlacedModel model(rank, setup, {.outlines = &outlines});
  TrainStep step(model, model.plan(pipelines.of(microbatches)));
  step.observe(watch);
  const i64 fullest = fullest_replica(*rank.mesh, model.memory(), step.optimizer());
  if (fullest != as) {
    return run_microbatches(
        arguments, setup, of, fullest, stands_for, pipelines, microbatches, outlines);
  }
  Plan whole = step.plan();
  if (microbatches < pipelines.all()) {
    whole = model.plan(pipelines.whole());
    if (!has_captured(whole)) stretch = repetition(whole, step.plan());
    if (!stretch) {
      microbatches = pipelines.all();
      return {};
    }
  }

  Representative out;
  out.use.add(setup, model, step.plan());
  if (setup.graphs->whole_step()) setup.graphs->check(out.use.blocks);  // before it is captured

  if (stretch) watch.begin_step();
  step.run();  // sets up; the next one is like all that follow
  step.losses();
  if (stretch) watch.begin_step();
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
    const auto cycle = watch.cycle(*stretch);
    auto all = repeated(out.actions, *stretch);
    if (!cycle || !all) {
      microbatches = pipelines.all();
      return {};
    }
    if (const std::size_t rest = stretch->times % *cycle; rest > 0) {
      microbatches += static_cast<int>(rest) * pipelines.ranks();
      return {};
    }
    const auto times = static_cast<i64>(stretch->times);
    graphs.launches += times * launches_of(out.actions, *stretch);
    sent.repeat(times);
    out.actions = std::move(*all);
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
  out.staged = blocks.bytes();
  if (setup.config->checkpoint.save && setup.config->checkpoint.asynchronous) {
    const TrainingState state(model, step);
    out.snapshot = RankPart(*rank.mesh, state.tensors()).most_bytes();
  }
  out.on_host = rank.device->memory_kind() == kHostMemory;
  out.traffic = sent.traffic(*rank.mesh, arguments.hardware);
  out.graphs = graphs;
  out.readbacks = step.readbacks(whole);
  out.microbatches = microbatches;
  out.plan = std::move(whole);
  out.prologue = meter.prologue();
  out.total = StepMeter::total(out.prologue, out.actions);
  return out;
}

// Microbatches that are alike are launched once.
Representative run_representative(const PlanArguments& arguments,
                                  const RunSetup& setup,
                                  const RankClass& of,
                                  const std::shared_ptr<Device>& stands_for,
                                  Pipelines& pipelines,
                                  int microbatches,
                                  Outlines& outlines) {
  for (int tries = 0;; ++tries) {
    if (tries == 2) microbatches = pipelines.all();  // it has another cycle each time
    try {
      auto done = run_microbatches(
          arguments, setup, of, of.first, stands_for, pipelines, microbatches, outlines);
      if (done) return std::move(*done);
    } catch (const Error&) {  // the schedule may refuse so few
      if (std::exchange(microbatches, pipelines.all()) == pipelines.all()) throw;
    }
  }
}

}  // namespace

std::vector<Representative> run_representatives(const PlanArguments& arguments,
                                                const RunSetup& setup,
                                                const std::vector<RankClass>& classes,
                                                const Pipeline& pipeline) {
  std::vector<Representative> done(classes.size());
  std::vector<std::exception_ptr> errors(classes.size());
  std::atomic<std::size_t> next = 0;
  Outlines outlines(setup);
  Pipelines pipelines(setup, pipeline);
  const bool every = arguments.every_microbatch || setup.graphs->whole_step();
  const int microbatches =
      every ? pipelines.all()
            : enough_microbatches(*setup.schedule, pipelines.ranks(), pipelines.all());
  const auto work = [&] {
    std::shared_ptr<Device> device;  // of this thread, as a rank has its own
    for (;;) {
      const std::size_t i = next++;
      if (i >= classes.size()) return;
      try {
        if (device == nullptr) {
          device = make_planned_device(rank_spec_of(setup), arguments.threads);
          if (setup.config->comm.staged) check_carried_memory(setup, *arguments.plugins, *device);
        }
        const RankClass& of = classes[i];
        done[i] =
            run_representative(arguments, setup, of, device, pipelines, microbatches, outlines);
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
  Effects use;
  for (const Representative& of : done) use.add(of.use);
  ProblemList problems;
  check_effects(setup, use, problems);
  problems.throw_all();
  return done;
}

}  // namespace tessera
