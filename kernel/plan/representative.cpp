#include "kernel/plan/representative.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <thread>
#include <utility>

#include "kernel/comm/simulated.hpp"
#include "kernel/tensor/meta_device.hpp"

namespace tessera {

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

namespace {

std::vector<Traffic> traffic_of(const Mesh& mesh, const Hardware& hardware) {
  std::vector<Traffic> list;
  for (const auto& group : mesh.all()) {
    for (int kind = 0; kind <= static_cast<int>(CollectiveKind::barrier); ++kind) {
      const GroupCounters::Entry& entry = group->counters().kinds[kind];
      if (entry.calls == 0) continue;
      list.push_back({.axes = group->name().substr(0, group->name().find('[')),
                      .size = group->size(),
                      .within_host = hardware.within_host(group->members()),
                      .kind = static_cast<CollectiveKind>(kind),
                      .calls = entry.calls,
                      .bytes = entry.bytes});
    }
  }
  return list;
}

std::vector<std::string> layers_of(const Session& session) {
  const std::vector<LayerPlan> all = session.setup().model->layers();
  std::vector<std::string> names;
  int last = -1;
  for (const PhaseInfo& phase : session.plan().phases) {
    if (phase.layer == std::exchange(last, phase.layer) || phase.layer < 0) continue;
    names.push_back(all[static_cast<std::size_t>(phase.layer)].name);
  }
  return names;
}

std::shared_ptr<Device> make_device(const PlanArguments& arguments) {
  HostMaker maker(*arguments.plugins, *arguments.config);
  DeviceArguments device;
  device.threads = arguments.threads;
  device.kernels = [&](std::string_view name) { return arguments.plugins->kernels(name); };
  return maker.make(arguments.config->run.device.device, device);
}

Representative run_representative(const PlanArguments& arguments,
                                  const RankClass& of,
                                  const std::shared_ptr<Device>& stands_for,
                                  const std::shared_ptr<Dataset>& data,
                                  const Pipeline& pipeline) {
  StepMeter meter(arguments.hardware);
  const StandIns stand_ins{
      .device = std::make_shared<MetaDevice>(
          stands_for,
          [&](const Kernel& kernel, const void* args) { meter.launched(kernel, args); }),
      .communicator = std::make_shared<SimulatedCommunicator>(SimulatedCommunicator::Events{
          .started = [&](u64 id,
                         const GroupSpec& group,
                         const Collective& collective) { meter.started(id, group, collective); },
          .waited = [&](u64 id) { meter.waited(id); }}),
      .dataset = data,
      .before_action = [&](const PlanAction& action) { meter.begin_action(action); },
      .pipeline = &pipeline};
  SessionArguments session_arguments;
  session_arguments.config = arguments.config;
  session_arguments.plugins = arguments.plugins;
  session_arguments.rank = of.first;
  session_arguments.world = arguments.world;
  session_arguments.threads = arguments.threads;
  session_arguments.stand_ins = &stand_ins;
  Session session(session_arguments);

  session.train_step();  // sets up; the next one is like all that follow
  session.losses();
  for (const auto& group : session.mesh().all()) group->reset_counters();
  meter.begin_step();
  session.train_step();
  meter.end_step();

  Representative out;
  out.of = of;
  out.layers = layers_of(session);
  for (const auto& entry : session.parts().parameters()) {
    out.parameters += entry.parameter->local.elements();
  }
  out.model_elements = session.parameter_elements();
  out.memory = session.device().memory();
  out.traffic = traffic_of(session.mesh(), arguments.hardware);
  out.plan = session.plan();
  out.actions = meter.actions();
  out.prologue = meter.prologue();
  out.total = meter.total();
  out.flops_per_token = session.setup().model->flops_per_token();
  return out;
}

}  // namespace

std::vector<Representative> run_representatives(const PlanArguments& arguments,
                                                const std::vector<RankClass>& classes,
                                                const std::shared_ptr<Dataset>& data,
                                                const Pipeline& pipeline) {
  std::vector<Representative> done(classes.size());
  std::vector<std::exception_ptr> errors(classes.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    std::shared_ptr<Device> device;  // of this thread, as a rank has its own
    for (;;) {
      const std::size_t i = next++;
      if (i >= classes.size()) return;
      try {
        if (device == nullptr) device = make_device(arguments);
        done[i] = run_representative(arguments, classes[i], device, data, pipeline);
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
  return done;
}

}  // namespace tessera
