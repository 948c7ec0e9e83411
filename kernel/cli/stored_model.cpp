#include "kernel/cli/stored_model.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/stored_config.hpp"
#include "kernel/launch/launcher.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/system/limits.hpp"
#include "kernel/train/run/loaded_model.hpp"

namespace tessera {

namespace {

int join(const StoredCommand& command, const RankEnvironment& environment) {
  std::optional<StoredModel> model;
  RankWork work;
  work.open = [&] { return model.emplace(command.open()).opened; };
  work.begin = [](const Opened&) { return std::string(); };
  work.run = [&](const Opened& opened, RankIdentity& identity, const RankFailed& failed) {
    // Each rank reads them by itself: a run may have saved meanwhile.
    std::vector<Fact> facts;
    if (command.facts) facts = command.facts();
    facts.push_back({"checkpoint", model->folder.string()});
    plane_of(opened, identity).same(facts, "start again: it has changed meanwhile");
    const RunSetup setup = model->setup(identity.world, command.use);
    choose_links(opened, setup, identity);
    command.work(*model, setup, identity, failed);
    return 0;
  };
  return join_ranks(environment, work);
}

}  // namespace

std::string UntrainedLayout::keys() const {
  const RunConfig plain;
  return fmt::format(
      "parallel.tensor = {}\n"
      "parallel.pipeline = 1\n"
      "parallel.context = 1\n"
      "parallel.data = {}\n"
      "parallel.expert = 1\n"
      "parallel.expert_tensor = \"auto\"\n"
      "parallel.sequence_parallel = false\n"
      "comm.ranks = {}\n"
      "batch.global = {}\n"
      "batch.micro = {}\n"
      "graph.type = \"{}\"\n"
      "check.graphs_every = 0\n"
      "placement.layout = \"\"\n"
      "placement.first = \"auto\"\n"
      "placement.last = \"auto\"\n"
      "placement.count_embedding = false\n"
      "placement.count_head = false\n"
      "schedule.type = \"{}\"\n",
      tensor,
      data,
      ranks,
      samples,
      micro,
      plain.graph.type,
      plain.schedule.type);
}

StoredModel::StoredModel(const std::string& checkpoint,
                         const std::vector<std::string>& path,
                         const std::vector<std::string>& sets,
                         const ConfigText& command)
    : folder(newest_checkpoint(checkpoint)) {
  const CheckpointIndex index = read_index(folder);
  const Config config = stored_config(folder, index, sets, command);
  opened.plugins = open_plugins(path, config);
  opened.config = resolve_stored(folder, index, config, *opened.plugins);
}

RunSetup StoredModel::setup(i64 world, DataUse use) const {
  return derive_setup(opened.config, *opened.plugins, world, use);
}

int run_stored(const StoredCommand& command) {
  const auto environment = detect_environment();
  if (environment && environment->own) return join(command, *environment);

  const StoredModel model = command.open();
  const RunSetup setup = model.setup(command.ranks, command.use);
  if (command.before && command.before(model, setup)) return 0;
  const int threads = rank_threads(model.opened.config.run.device, command.ranks);
  if (command.ranks > 1) {
    check_processors(model.opened, command.ranks);
    check_units(model.opened, command.ranks);
  }
  require_threads(threads);
  if (command.ranks == 1) {
    command.work(model, setup, {.threads = threads}, [](const std::exception&) {});
    return 0;
  }
  check_loadable(setup, model.folder.string(), threads, command.doing, command.changed);
  return launch_ranks(command.ranks,
                      program_arguments(),
                      {.threads = threads,
                       .stuck_after = seconds(model.opened.config.run.comm.timeout_s),
                       .stopping = ""});
}

}  // namespace tessera
