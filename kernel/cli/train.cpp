#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "kernel/cli/commands.hpp"
#include "kernel/config/dump.hpp"
#include "kernel/launch/agree.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/failure.hpp"
#include "kernel/launch/launcher.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/launch/rendezvous.hpp"
#include "kernel/launch/signals.hpp"
#include "kernel/train/trainer.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

using std::chrono::milliseconds;

// Configuration and plugins of a run, checked; the same on every rank.
struct Opened {
  std::shared_ptr<PluginHost> plugins;
  Resolved config;
};

Opened open(const TrainOptions &options) {
  const Config config = Config::load(options.files, options.sets);
  Opened opened{open_plugins(config.plugin_path()), {}};
  opened.config = resolve(config, *opened.plugins);
  return opened;
}

std::string communicator_for(const RunConfig &config,
                             const RankEnvironment &environment) {
  if (config.comm.communicator.type != "auto")
    return config.comm.communicator.type;
  return environment.local_world == environment.world ? "shm" : "gloo";
}

std::string describe_layout(const RunConfig &config, i64 world,
                            std::string_view communicator) {
  const RankGenerator ranks(layout_of(config, world));
  std::string text = fmt::format(
      "tensor {} × data {}", ranks.size(Axis::tensor), ranks.size(Axis::data));
  return world == 1
             ? text + ", one process"
             : fmt::format("{}, {} ranks over {}", text, world, communicator);
}

std::vector<Fact> facts(const Opened &opened, const TrainerArguments &trainer) {
  std::string plugins;
  for (const PluginHost::Fingerprint &plugin : opened.plugins->fingerprint()) {
    plugins += fmt::format("{} {} {} {:016x}\n", plugin.plugin, plugin.version,
                           plugin.stamp, plugin.hash);
  }
  return {{"configuration", trainer.config_text},
          {"plugins", plugins},
          {"threads", std::to_string(trainer.session.threads)}};
}

void run_rank(const Opened &opened, const RankEnvironment &environment,
              Store *store, bool json) {
  const RunConfig &config = opened.config.run;
  const StopFlag stop;
  TrainerArguments arguments;
  arguments.session.config = &opened.config;
  arguments.session.plugins = opened.plugins.get();
  arguments.session.rank = environment.rank;
  arguments.session.world = environment.world;
  arguments.session.local_rank = environment.local_rank;
  arguments.session.store = store;
  arguments.session.communicator = communicator_for(config, environment);
  arguments.session.threads = static_cast<int>(
      config.device.threads.value_or(auto_threads(environment.local_world)));
  arguments.stop = [&stop] { return stop.requested(); };
  arguments.layout = describe_layout(config, environment.world,
                                     arguments.session.communicator);
  arguments.config_text = dump(opened.config);
  arguments.json = json;
  if (store != nullptr) {
    agree(*store, environment.rank, environment.world, facts(opened, arguments),
          milliseconds(static_cast<i64>(config.comm.init_timeout_s * 1000)));
  }
  train_rank(arguments);
}

// A rank among several: started by our launcher or by another one.
int join(const TrainOptions &options, const RankEnvironment &environment) {
  try {
    const Opened opened = open(options);
    const auto timeout = milliseconds(
        static_cast<i64>(opened.config.run.comm.init_timeout_s * 1000));
    Rendezvous rendezvous(environment, timeout);
    run_rank(opened, environment, &rendezvous.store(), options.json);
    return 0;
  } catch (const std::exception &error) {
    const auto *known = dynamic_cast<const Error *>(&error);
    const int code = known != nullptr ? known->exit_code() : 1;
    if (!report_failure(environment.report, error.what(), code))
      throw;
    return code;
  }
}

} // namespace

int run_train(const TrainOptions &options) {
  const auto environment = detect_environment();
  if (environment && environment->world > 1)
    return join(options, *environment);

  const Opened opened = open(options);
  for (const std::string &notice : opened.config.notices)
    fmt::print(stderr, "{}\n", notice);
  const i64 world = world_size(opened.config.run);
  HostMaker maker(*opened.plugins, opened.config);
  const RunSetup setup = set_up(opened.config.run, maker, world);
  check_models(opened.config.run, setup, maker);
  if (world > 1)
    return launch_ranks(world, program_arguments());
  run_rank(opened, {}, nullptr, options.json);
  return 0;
}

} // namespace tessera
