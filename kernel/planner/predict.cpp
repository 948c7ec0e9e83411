#include "kernel/planner/predict.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "kernel/planner/group_names.hpp"
#include "kernel/planner/planned_data.hpp"
#include "kernel/schedule/draw.hpp"
#include "kernel/schedule/verify.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "kernel/train/setup/model_flops.hpp"
#include "tessera/error.hpp"
#include "tessera/types.hpp"

namespace tessera {

namespace {

// Groups of several ranks: along one axis, of replicas, of a model replica, of experts, and
// whichever others carry messages.
std::vector<PlannedGroups> groups_of(const RankGenerator& ranks,
                                     const std::vector<Representative>& classes,
                                     const Hardware& hardware) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& axes) {
    if (!axes.empty() && std::ranges::find(names, axes) == names.end()) names.push_back(axes);
  };
  for (const char* name :
       {"tp", "cp", "dp", "pp", "dp-cp", "tp-pp", "etp", "ep", "edp", "etp-ep"}) {
    add(shown_group(name, ranks));
  }
  for (const Representative& of : classes) {
    for (const Traffic& traffic : of.traffic) add(traffic.axes);
  }
  std::vector<PlannedGroups> all;
  for (const std::string& axes : names) {
    PlannedGroups groups{axes, ranks.groups(axes)};
    groups.within_host = std::ranges::all_of(
        groups.members, [&](const auto& members) { return hardware.within_host(members); });
    all.push_back(std::move(groups));
  }
  return all;
}

// Seconds of each message between two pipeline ranks, as the sending action carried it.
class Messages {
 public:
  Messages(const std::vector<Representative*>& ranks, const Hardware& hardware) {
    for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
      const Representative& from = *ranks[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < from.plan.actions.size(); ++i) {
        const std::vector<PlanAction::Message>& sends = from.plan.actions[i].sends;
        for (const PlanAction::Message& message : sends) {
          const Representative& to = *ranks[static_cast<std::size_t>(message.peer)];
          const LinkTable link = hardware.ring(std::vector<i64>{from.of.first, to.of.first});
          seconds_[key(rank, message)] = link.latency + from.actions[i].sent /
                                                            static_cast<double>(sends.size()) /
                                                            (link.bandwidth * link.efficiency);
        }
      }
    }
  }
  double seconds(int rank, const PlanAction::Message& message) const {
    return seconds_.at(key(rank, message));
  }

 private:
  using Key = std::tuple<int, bool, int, int>;
  static Key key(int rank, const PlanAction::Message& message) {
    return {rank, message.forward, message.microbatch, message.stage};
  }
  std::map<Key, double> seconds_;
};

Timeline play(const std::vector<Representative*>& ranks, const Hardware& hardware) {
  const Messages messages(ranks, hardware);
  std::vector<Plan> plans;  // lent: those of many microbatches take long to copy
  plans.reserve(ranks.size());
  for (Representative* rank : ranks) plans.push_back(std::move(rank->plan));
  verify(plans);
  PlanCosts costs;
  costs.action = [&](int rank, const Plan& plan, const PlanAction& action) {
    const auto index = static_cast<std::size_t>(&action - plan.actions.data());
    if (action.kind == PlanAction::Exchange) return hardware.launch_latency;
    return ranks[static_cast<std::size_t>(rank)]->actions.at(index).seconds;
  };
  costs.arrival = [&](int rank, const Plan& plan, const PlanAction& action) {
    const auto index = static_cast<std::size_t>(&action - plan.actions.data());
    return ranks[static_cast<std::size_t>(rank)]->actions.at(index).arrival;
  };
  costs.message = [&](int rank, const PlanAction::Message& message) {
    return messages.seconds(rank, message);
  };
  Timeline timeline = tessera::play(plans, costs);
  for (std::size_t i = 0; i < plans.size(); ++i) ranks[i]->plan = std::move(plans[i]);
  return timeline;
}

// Draws it, too.
Pipeline play_schedule(Prediction& out, const PipelineSchedule& schedule) {
  const int ranks = static_cast<int>(out.layout.pipeline);
  verify(schedule, shape_of(schedule, ranks, out.microbatches, false));
  const PipelineShape shape = shape_of(schedule, ranks, out.microbatches, true);
  Pipeline pipeline = verify(schedule, shape);
  out.picture = draw(tessera::play(pipeline.orders), shape.chunks);
  return pipeline;
}

void add_times(Prediction& out) {
  const Hardware& hardware = out.hardware;
  for (i64 context = 0; context < out.layout.context; ++context) {
    std::vector<Representative*> ranks;
    double prologue = 0;
    for (Representative& of : out.classes) {
      if (of.of.context != context) continue;
      ranks.push_back(&of);
      prologue = std::max(prologue, of.prologue.seconds);
    }
    Timeline timeline = play(ranks, hardware);
    if (prologue + timeline.makespan <= out.step_seconds) continue;
    out.step_seconds = prologue + timeline.makespan;
    out.timeline = std::move(timeline);
    out.timeline_context = context;
  }
  out.bubble = out.timeline.bubble();
}

}  // namespace

PlannedOverlap overlap_of(const Timeline& timeline, std::size_t rank, PlanAction::Kind kind) {
  PlannedOverlap out;
  for (const Timeline::Overlapped& overlapped : timeline.overlapped.at(rank)) {
    if (overlapped.kind != kind || overlapped.span.end == overlapped.span.start) continue;
    ++out.buckets;
    out.seconds += overlapped.span.end - overlapped.span.start;
    out.hidden += overlapped.hidden;
  }
  return out;
}

double Prediction::tokens_per_second() const {
  return static_cast<double>(global * sequence_length) / step_seconds;
}

double Prediction::flops_per_second_and_rank() const {
  return model_flops / step_seconds / static_cast<double>(layout.world);
}

Prediction predict(const PlanArguments& arguments) {
  const RunConfig& config = arguments.config->run;
  std::string note;
  const RunSetup setup =
      derive_planned_setup(*arguments.config, *arguments.plugins, arguments.world, note);
  Prediction out;
  if (!note.empty()) out.notes.push_back(note);
  out.run = config.run.name;
  out.hardware = arguments.hardware;
  out.table_of_run = out.hardware.table == config.run.hardware;
  out.layout = setup.layout;
  const RankGenerator ranks(out.layout);
  if (arguments.imbalance != 1) {
    if (ranks.size(Axis::expert) == 1) {
      fail_config(
          "--imbalance {}: parallel.expert = 1, so that every rank holds all experts and none is "
          "loaded more than another",
          arguments.imbalance);
    }
    out.notes.push_back(
        fmt::format("the experts of every rank are planned with {} times their mean load",
                    arguments.imbalance));
  } else if (ranks.size(Axis::expert) > 1) {
    out.notes.emplace_back(
        "the experts of every rank are planned with their mean load; a router may load some more, "
        "which takes memory and time: --imbalance 1.3");
  }
  if (config.comm.staged && out.layout.world > 1) {
    out.notes.emplace_back(
        "comm.staged: times leave out the copies between devices and hosts, and what a device "
        "waits "
        "for them");
  }
  if (config.device.share > 1 && out.layout.world > 1) {
    out.ranks_on_unit = config.device.share;
    out.notes.push_back(
        fmt::format("device.share: {} ranks share the memory of a device; times and MFU are those "
                    "of ranks that have one each",
                    out.ranks_on_unit));
  }
  out.data = ranks.size(Axis::data);
  out.microbatches = setup.microbatches;
  out.micro = config.batch.micro;
  out.global = config.batch.global;
  out.sequence_length = setup.sequence_length;
  out.overlaps = setup.schedule->overlaps();
  const Pipeline pipeline = play_schedule(out, *setup.schedule);
  out.classes = run_representatives(arguments, setup, rank_classes(ranks), pipeline);
  out.groups = groups_of(ranks, out.classes, out.hardware);
  for (const Representative& of : out.classes) {
    out.flops += of.total.flops * static_cast<double>(of.of.ranks);
  }
  out.parameters = out.classes.front().model_elements;
  out.active_parameters = out.classes.front().active_elements;
  const auto device = make_planned_device(rank_spec_of(setup), arguments.threads);
  out.model_flops = model_flops_per_token(setup, device) *
                    static_cast<double>(config.batch.global * out.sequence_length);
  add_times(out);
  const DType compute = parse_dtype(config.precision.compute);
  out.mfu =
      out.flops_per_second_and_rank() / out.hardware.peak_rate(compute, rounds_to_tf32(*device));
  return out;
}

}  // namespace tessera
