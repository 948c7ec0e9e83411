#include "kernel/train/run/dry_run.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/initial_parameters.hpp"
#include "kernel/comm/launch_order.hpp"
#include "kernel/model/located_error.hpp"
#include "kernel/model/look_ahead.hpp"
#include "kernel/model/placement_check.hpp"
#include "kernel/model/unreached.hpp"
#include "kernel/schedule/lower.hpp"
#include "kernel/schedule/verify.hpp"
#include "kernel/train/execution/evaluation.hpp"
#include "kernel/train/execution/train_step.hpp"
#include "kernel/train/run/meaning.hpp"
#include "kernel/train/run/model_use.hpp"
#include "kernel/train/run/starting_point.hpp"
#include "kernel/train/run/training_state.hpp"
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
    rethrow_located(fmt::format("{}: {} pass of \"{}\" in {}",
                                phase.component,
                                forward ? "forward" : "backward",
                                info.scope,
                                setup_.model->layers()[static_cast<std::size_t>(info.layer)].name));
  }

 private:
  const PlacedModel& model_;
  const RunSetup& setup_;
  Unreached& unreached_;
};

// The checkpoints that are asked for by name, and those that are in the way.
void check_start(const RunSetup& setup) {
  const CheckpointSection& section = setup.config->checkpoint;
  const auto located = [&](std::string_view key, auto&& body) {
    try {
      body();
    } catch (const ConfigError& error) {
      fail_config(
          "{}: [checkpoint] {}: {}", setup.maker->origin("checkpoint", key), key, error.what());
    }
  };
  const bool named = section.resume != "auto" && section.resume != "none";
  located("resume", [&] {
    if (named) find_checkpoints(section.resume);
    require_unmixed(*setup.config);
  });
  if (section.init_from.empty()) {
    located("init_skip", [&] {
      if (!section.init_skip.empty()) fail_config("has no effect without init_from");
    });
    located("init_changes", [&] {
      if (!section.init_changes.empty()) fail_config("has no effect without init_from");
    });
    return;
  }
  located("init_from", [&] {
    if (named) fail_config("has no effect where resume names a checkpoint");
    find_checkpoints(section.init_from);
  });
}

void check_meaning(const std::filesystem::path& folder,
                   const CheckpointInfo& info,
                   const RunSetup& setup) {
  Meaning meaning = compare_meaning(info, setup);
  warn_of_unknown(folder, meaning);
  meaning.allow(setup.config->checkpoint.init_changes);
  if (meaning.same()) return;
  fail_config(
      "checkpoint.init_from: the parameters of {} mean something else here:{}\n  take its values, "
      "or name what may differ in checkpoint.init_changes",
      folder.string(),
      meaning.text());
}

// What a run would take of another one's checkpoint, before its ranks are there to find it wrong.
// A run that goes on takes nothing of it.
void check_initial(const RunSetup& setup, const std::vector<std::string>& parameters) {
  const CheckpointSection& section = setup.config->checkpoint;
  if (section.init_from.empty()) return;
  if (section.resume == "auto" && !complete_steps(section.out).empty()) return;
  try {
    const std::filesystem::path folder = find_checkpoints(section.init_from).front();
    const CheckpointIndex index = read_index(folder);
    match_initial(folder, index, parameters, section.init_skip);
    check_meaning(folder, index.info, setup);
  } catch (const ConfigError& error) {
    const std::string_view text = error.what();
    const std::string_view key = text.starts_with("checkpoint.init_skip")      ? "init_skip"
                                 : text.starts_with("checkpoint.init_changes") ? "init_changes"
                                                                               : "init_from";
    fail_config("{}: {}", setup.maker->origin("checkpoint", key), text);
  }
}

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
  ModelUse use;
};
// What the steps of all ranks show together.
struct Findings {
  explicit Findings(const RunSetup& setup) : surveys(setup, true) {}
  Surveys surveys;
  LaunchOrder launches;
  WrongPlacements wrong;
  LookAhead ahead;
  Unreached unreached;
  std::vector<std::string> parameters;  // of the whole run, as parameter_names() has them
};

Tried try_rank(const RunSetup& setup,
               i64 number,
               const std::shared_ptr<Device>& stands_for,
               int microbatches,
               Findings& all) {
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
  const Rank rank = dry_rank(setup.layout, number, stands_for, std::move(events));
  PlacedModel model(rank, setup, {.locate_errors = true, .surveys = &all.surveys});
  all.parameters = parameter_names(model);
  Locator locator(model, setup, all.unreached);
  TrainStep step(rank,
                 model,
                 setup,
                 {.observer = &locator, .microbatches = microbatches, .locate_errors = true});
  Tried tried{step.plan(), {}};
  tried.use.add(setup, model, step.plan());
  if (setup.graphs->whole_step()) setup.graphs->check(tried.use.blocks);  // before the capture
  placement.begin(*rank.mesh, model.parts().parameter_list());
  all.unreached.begin(model.parts().parameter_list());
  step.run();
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

// What the layers find wrong, where something else keeps them from a step.
void build_layers(const RunSetup& setup, const std::shared_ptr<Device>& device) {
  Surveys surveys(setup, true);
  for (const RankClass& of : rank_classes(RankGenerator(setup.layout))) {
    const Rank rank = dry_rank(setup.layout, of.first, device);
    const PlacedModel model(rank, setup, {.locate_errors = true, .surveys = &surveys});
  }
}

// One training step of each class of ranks over absent hardware.
void try_steps(const RunSetup& setup,
               const std::shared_ptr<Device>& device,
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
  ModelUse use;
  for (const RankClass& of : rank_classes(RankGenerator(setup.layout))) {
    const auto tried =
        problems.run([&] { return try_rank(setup, of.first, device, microbatches, all); });
    if (!tried) continue;
    use.add(tried->use);
    if (of.context == 0) plans.push_back(tried->plan);
  }
  all.wrong.tell(problems);
  if (problems.empty()) {
    check_use(setup, use, problems);
    if (can_start) check([&] { check_initial(setup, all.parameters); });
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
                   ProblemList& problems) {
  RunSetup setup = derive_setup(config, plugins, world, DataUse::required, problems);
  const auto check = [&](auto&& body) {
    return problems
        .run([&] {
          body();
          return true;
        })
        .has_value();
  };
  const bool can_start = !config.doubtful.contains("checkpoint") &&
                         !config.doubtful.contains("run") && check([&] { check_start(setup); });
  const bool scheduled = setup.can_step && check([&] { check_schedule(setup); });
  if (!setup.can_build) return setup;
  check([&] {
    const auto device = make_device(rank_spec_of(setup), {.threads = threads});
    if (scheduled) {
      try_steps(setup, device, can_start, problems);
    } else {
      build_layers(setup, device);
    }
  });
  return setup;
}

RunSetup checked_setup(const Resolved& config, const PluginHost& plugins, i64 world, int threads) {
  ProblemList problems;
  RunSetup setup = try_setup(config, plugins, world, threads, problems);
  problems.throw_all();
  return setup;
}

}  // namespace tessera
