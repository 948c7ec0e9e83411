#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <string>
#include <utility>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/stored_config.hpp"
#include "kernel/cli/commands.hpp"
#include "kernel/cli/stored_model.hpp"
#include "kernel/cli/text_printer.hpp"
#include "kernel/train/run/loaded_model.hpp"
#include "kernel/train/run/model_scorer.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

constexpr const char* kTask = "of_this_command";  // the name of its table

// As TOML: what is no number and no truth value is a string.
std::string value_of(const std::string& text) {
  static const std::regex plain("true|false|[-+]?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?");
  return std::regex_match(text, plain) ? text : Value(text).text();
}

// "--window 1024" is the key `window` of the evaluation.
std::string keys_of(const EvalOptions& options) {
  std::string keys;
  for (std::size_t i = 0; i < options.keys.size(); i += 2) {
    const std::string& flag = options.keys[i];
    if (!flag.starts_with("--") || flag.size() < 3) {
      fail_config("{}: write keys of the evaluation as --KEY VALUE", written_plain(flag));
    }
    if (i + 1 == options.keys.size()) fail_config("{}: its value is missing", written_plain(flag));
    keys += fmt::format("{} = {}\n", flag.substr(2), value_of(options.keys[i + 1]));
  }
  return keys;
}

// Layouts come from --set alone: that of the training says nothing here. What --ranks gives and no
// axis takes is data-parallel.
ConfigText layout(const EvalOptions& options, i64 samples) {
  const RunConfig plain;
  return {"tessera eval",
          fmt::format("parallel.tensor = 1\n"
                      "parallel.pipeline = 1\n"
                      "parallel.context = 1\n"
                      "parallel.data = \"auto\"\n"
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
                      "schedule.type = \"{}\"\n"
                      "[evaluations.{}]\n"
                      "type = {}\n"
                      "data = {}\n"
                      "{}",
                      options.ranks,
                      samples,
                      options.batch,
                      plain.graph.type,
                      plain.schedule.type,
                      kTask,
                      Value(options.task).text(),
                      Value(options.data).text(),
                      keys_of(options))};
}

// A round of as many microbatches as the pipeline has ranks.
i64 samples_of_round(const EvalOptions& options) {
  const std::filesystem::path folder = newest_checkpoint(options.checkpoint);
  const CheckpointIndex index = read_index(folder);
  const Config config = stored_config(folder, index, options.sets, layout(options, options.batch));
  const auto size = [&](const char* axis) {
    const Entry* entry = config.tree().find(std::string("parallel.") + axis);
    const auto* number =
        entry == nullptr || !entry->value ? nullptr : std::get_if<i64>(&entry->value->data);
    return number == nullptr || *number < 1 ? 1 : *number;
  };
  const i64 pipeline = size("pipeline"), replica = size("tensor") * size("context") * pipeline;
  return options.batch * pipeline * std::max<i64>(options.ranks / replica, 1);
}

void print(const EvaluationResults& results, const EvalOptions& options) {
  Json json;
  json.add("task", options.task).add("checkpoint", options.checkpoint).add("data", options.data);
  std::size_t widest = 0;
  for (const auto& [name, value] : results) widest = std::max(widest, name.size());
  for (const auto& [name, value] : results) {
    std::visit(
        [&](const auto& plain) {
          using T = std::decay_t<decltype(plain)>;
          if constexpr (std::is_same_v<T, double> || std::is_same_v<T, i64> ||
                        std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
            json.add(name, Json(plain));
            if (!options.json) print_now(fmt::format("{:<{}}  {}\n", name, widest, plain));
          }
        },
        value.data);
  }
  if (options.json) print_now(json.text() + "\n");
}

void measure(const StoredModel& model,
             const RunSetup& setup,
             const RankIdentity& identity,
             const EvalOptions& options,
             const RankFailed& failed) {
  LoadedModel loaded(setup, model.folder.string(), identity, "evaluate");
  try {
    ModelScorer scorer(loaded.placed());
    EvaluationArguments arguments{setup.tokenizer, scorer.most_tokens()};
    // The run may have evaluations of its own.
    const auto& all = setup.config->evaluations;
    const auto ours = std::ranges::find(all, kTask, &Named<EvaluationTask>::name);
    require(ours != all.end(), "the evaluation of the command is gone");
    const auto task = setup.maker->make(ours->component, arguments);
    const EvaluationResults results = task->evaluate(scorer);
    if (identity.rank == 0) print(results, options);
  } catch (const std::exception& error) {
    failed(error);
    loaded.rank().abort(error.what());
    throw;
  }
}

}  // namespace

int run_eval(const EvalOptions& options) {
  StoredCommand command{.doing = "evaluate", .ranks = options.ranks, .use = DataUse::texts};
  command.open = [&] {
    return StoredModel(
        options.checkpoint, options.path, options.sets, layout(options, samples_of_round(options)));
  };
  command.facts = [] { return std::vector<Fact>(); };
  command.before = [](const StoredModel&, const RunSetup&) { return false; };
  command.work = [&](const StoredModel& model,
                     const RunSetup& setup,
                     const RankIdentity& identity,
                     const RankFailed& failed) {
    measure(model, setup, identity, options, failed);
  };
  return run_stored(command);
}

}  // namespace tessera
