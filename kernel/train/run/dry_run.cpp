#include "kernel/train/run/dry_run.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernel/comm/launch_order.hpp"
#include "kernel/config/choice.hpp"
#include "kernel/dry/dry_rank.hpp"
#include "kernel/model/look_ahead.hpp"
#include "kernel/model/placement_check.hpp"
#include "kernel/model/unreached.hpp"
#include "kernel/schedule/lower.hpp"
#include "kernel/schedule/verify.hpp"
#include "kernel/system/limits.hpp"
#include "kernel/train/data/first_samples.hpp"
#include "kernel/train/execution/evaluation.hpp"
#include "kernel/train/execution/train_step.hpp"
#include "kernel/train/run/effects.hpp"
#include "kernel/train/run/start_check.hpp"
#include "kernel/train/run/training_state.hpp"
#include "kernel/train/setup/carried_memory.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "kernel/train/setup/model_flops.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

// Adds to the error of an action which component it is and what it was doing, and says which
// launches are of a backward pass.
class Locator final : public ActionObserver {
 public:
  Locator(const PlacedModel& model, const RunSetup& setup, Unreached& unreached)
      : model_(model), setup_(setup), unreached_(unreached) {}
  void before(const Plan&, const PlanAction& action) override {
    unreached_.backward(action.kind == PlanAction::B || action.kind == PlanAction::Bi ||
                        action.kind == PlanAction::Bw);
  }
  void after(const Plan&, const PlanAction&) override { unreached_.backward(false); }
  void failed(const Plan& plan, const PlanAction& action) override {
    if (action.phase < 0) return;
    const PhaseInfo& info = plan.phases[static_cast<std::size_t>(action.phase)];
    if (info.layer < 0) return;
    const Phase& phase = model_.chunks()[static_cast<std::size_t>(action.chunk)]
                             .phases()[static_cast<std::size_t>(info.phase)];
    const bool forward = action.kind == PlanAction::F || action.kind == PlanAction::Recompute;
    rethrow_at(choice_of(phase.owner),
               fmt::format(": {} pass of \"{}\" in {}",
                           forward ? "forward" : "backward",
                           info.scope,
                           setup_.model->layers()[static_cast<std::size_t>(info.layer)].name));
  }

 private:
  const PlacedModel& model_;
  const RunSetup& setup_;
  Unreached& unreached_;
};

// Parameters whose placement is wrong, by the component that declared them: one mistake is made
// again in each layer. In the order in which a backward pass finds them: causes come first.
class WrongPlacements {
 public:
  void add(const ModelParts& parts, const PlacementCheck& placement) {
    const auto& entries = parts.parameters();
    for (const PlacementCheck::Problem& problem : placement.problems()) {
      const auto entry = std::ranges::find_if(
          entries, [&](const auto& e) { return e.parameter.get() == problem.parameter; });
      of(entry->component).add(problem.text);
    }
  }
  void tell(ProblemList& problems) const {
    constexpr std::size_t kShown = 3;
    for (const auto& [component, all] : by_component_) {
      const std::vector<std::string>& texts = all.texts();
      const std::size_t shown = std::min(texts.size(), kShown);
      for (std::size_t i = 0; i < shown; ++i) problems.add(component + ": " + texts[i]);
      if (texts.size() == shown) continue;
      problems.add(fmt::format("{}: and {} more like it", component, texts.size() - shown));
    }
  }

 private:
  ProblemList& of(const std::string& component) {
    const auto found = std::ranges::find(by_component_, component, &Of::first);
    if (found != by_component_.end()) return found->second;
    return by_component_.emplace_back(component, ProblemList()).second;
  }
  using Of = std::pair<std::string, ProblemList>;
  std::vector<Of> by_component_;
};

// One training step of one rank over absent hardware; what it declared and planned.
struct Tried {
  Plan plan;
  Effects use;
};
// What the steps of all ranks show together.
struct Findings {
  explicit Findings(const RunSetup& setup) : outlines(setup, true) {}
  Outlines outlines;
  LaunchOrder launches;
  WrongPlacements wrong;
  LookAhead ahead;
  Unreached unreached;
};

Tried try_rank(const RunSetup& setup,
               i64 number,
               const std::shared_ptr<Device>& stands_for,
               int microbatches,
               Findings& all,
               StartCheck& start) {
  PlacementCheck placement;
  DryEvents events;
  events.launched = [&](const Kernel& kernel, const void* args) {
    placement.launched(kernel, args);
    all.unreached.launched(kernel, args);
  };
  events.collectives.started = [&](u64, const GroupSpec& group, const Collective& collective) {
    placement.started(group, collective);
    all.launches.launched(number, group, collective);
  };
  events.collectives.capturable = !setup.config->comm.staged;
  const Rank rank = dry_rank(setup.layout, number, stands_for, std::move(events));
  PlacedModel model(rank, setup, {.locate_errors = true, .outlines = &all.outlines});
  Locator locator(model, setup, all.unreached);
  TrainStep step(model, model.plan(microbatches, true));
  step.observe(locator);
  start.add(TrainingState(model, step));
  Tried tried{step.plan(), {}};
  tried.use.add(setup, model, step.plan());
  if (setup.graphs->whole_step()) setup.graphs->check(tried.use.blocks);  // before the capture
  placement.begin(*rank.mesh, model.parts().parameter_list());
  all.unreached.begin(model.parts().parameter_list());
  try {
    step.run();
    check_first_samples(setup, model.parts(), *rank.mesh);
  } catch (...) {
    rethrow_at({});
  }
  all.unreached.end(model.parts());
  all.wrong.add(model.parts(), placement);
  all.ahead.add(model.chunks());
  step.losses();
  return tried;
}

// Microbatches have one shape, so few of them stand for all: the fewest that the schedule takes.
int fewest_microbatches(const RunSetup& setup) {
  const auto ranks = static_cast<int>(setup.layout.pipeline);
  const auto all = static_cast<int>(setup.microbatches);
  for (const int count : {1, ranks, 2 * ranks}) {
    if (count >= all) break;
    try {
      verify(*setup.schedule, shape_of(*setup.schedule, ranks, count, true));
      return count;
    } catch (const Error&) {  // more, then
    }
  }
  return all;
}

void check_schedule(const RunSetup& setup) {
  const auto ranks = static_cast<int>(setup.layout.pipeline);
  for (const bool training : {true, false}) {
    verify(*setup.schedule, shape_of(*setup.schedule, ranks, setup.microbatches, training));
  }
}

// Finds what is wrong with the layers, where something else keeps them from a step.
void build_layers(const RunSetup& setup, const std::shared_ptr<Device>& device) {
  Outlines outlines(setup, true);
  for (const RankClass& of : rank_classes(RankGenerator(setup.layout))) {
    const Rank rank = dry_rank(setup.layout, of.first, device);
    const PlacedModel model(rank, setup, {.locate_errors = true, .outlines = &outlines});
  }
}

// One training step of each class of ranks over absent hardware.
void try_steps(const RunSetup& setup,
               const std::shared_ptr<Device>& device,
               StartCheck& start,
               bool can_start,
               ProblemList& all_of) {
  ProblemList problems;
  const auto check = [&](auto&& body) {
    problems.run([&] {
      body();
      return true;
    });
  };
  const int microbatches = fewest_microbatches(setup);
  Findings all(setup);
  std::vector<Plan> plans;  // of one context coordinate, by pipeline rank
  Effects use;
  for (const RankClass& of : rank_classes(RankGenerator(setup.layout))) {
    const auto tried =
        problems.run([&] { return try_rank(setup, of.first, device, microbatches, all, start); });
    if (!tried) continue;
    use.add(tried->use);
    if (of.context == 0) plans.push_back(tried->plan);
  }
  all.wrong.tell(problems);
  if (problems.empty()) {
    check_effects(setup, use, problems);
    if (can_start) check([&] { start.require_fit(); });
    check([&] { verify(plans); });
    check([&] { all.launches.check(); });
  }
  if (problems.empty()) {
    all.ahead.warn();
    all.unreached.warn();
  }
  all_of.add(problems);
}

}  // namespace

std::vector<RankClass> rank_classes(const RankGenerator& ranks) {
  std::map<std::pair<i64, i64>, RankClass> classes;
  for (i64 rank = 0; rank < ranks.layout().world; ++rank) {
    const i64 pipeline = ranks.coordinate(rank, Axis::pipeline);
    const i64 context = ranks.coordinate(rank, Axis::context);
    RankClass& of = classes[{pipeline, context}];
    if (of.ranks++ == 0) of = {pipeline, context, rank, 1};
  }
  std::vector<RankClass> list;
  list.reserve(classes.size());
  for (const auto& [key, of] : classes) list.push_back(of);
  return list;
}

RunSetup try_setup(const Resolved& config,
                   const PluginHost& plugins,
                   i64 world,
                   int threads,
                   ProblemList& problems,
                   DataUse data) {
  RunSetup setup = derive_setup(config, plugins, world, data, problems);
  const auto check = [&](auto&& body) {
    return problems
        .run([&] {
          body();
          return true;
        })
        .has_value();
  };
  StartCheck start(setup);
  constexpr std::array kStart = {"checkpoint.resume",
                                 "checkpoint.out",
                                 "checkpoint.save",
                                 "checkpoint.init_from",
                                 "checkpoint.init_skip",
                                 "checkpoint.init_changes",
                                 "run.out"};
  const bool known =
      std::ranges::none_of(kStart, [&](const char* path) { return config.doubts(path); });
  const bool found = known && check([&] { start.require_found(); });
  const bool comparable =
      found && config.doubtful.empty() && setup.tokenizer != nullptr && setup.dataset != nullptr;
  const bool can_start = comparable && check([&] { start.require_may_go_on(); });
  const bool scheduled = setup.can_step && check([&] { check_schedule(setup); });
  const bool enough = check([&] { require_threads(threads); });
  if (!setup.can_build) return setup;
  check([&] {
    const auto device = make_planned_device(rank_spec_of(setup), enough ? threads : 1);
    check([&] { peak_flops(setup, *device); });
    check([&] { check_carried_memory(setup, plugins, *device); });
    if (scheduled) {
      try_steps(setup, device, start, can_start, problems);
    } else {
      build_layers(setup, device);
    }
  });
  return setup;
}

RunSetup checked_setup(const Resolved& config, const PluginHost& plugins, i64 world, int threads) {
  ProblemList problems;
  RunSetup setup = try_setup(config, plugins, world, threads, problems, DataUse::kept);
  problems.throw_all();
  return setup;
}

}  // namespace tessera
