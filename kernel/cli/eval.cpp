#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/stored_model.hpp"
#include "kernel/cli/text_printer.hpp"
#include "kernel/config/toml.hpp"
#include "kernel/train/run/loaded_model.hpp"
#include "kernel/train/run/model_scorer.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

constexpr const char* kTask = "of_this_command";  // the name of its table

// As --set takes it: what is no TOML value is a string.
std::string value_of(const std::string& text) {
  return parse_toml_value(text, Origin()) ? text : Value(text).text();
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

// Layouts come from --set alone, and what --ranks gives and no axis takes is data-parallel. A round
// has as many microbatches as the pipeline has ranks.
ConfigText settings(const EvalOptions& options) {
  const Config said = Config::parse("", "tessera eval", options.sets);
  const auto size = [&](const char* axis) {
    const Entry* entry = said.tree().find(std::string("parallel.") + axis);
    const auto* number =
        entry == nullptr || !entry->value ? nullptr : std::get_if<i64>(&entry->value->data);
    return number == nullptr || *number < 1 ? 1 : *number;
  };
  const i64 pipeline = size("pipeline"), replica = size("tensor") * size("context") * pipeline;
  const i64 replicas = std::max<i64>(options.ranks / replica, 1);
  const UntrainedLayout layout{.ranks = options.ranks,
                               .data = "\"auto\"",
                               .samples = options.batch * pipeline * replicas,
                               .micro = options.batch};
  return {"tessera eval",
          layout.keys() + fmt::format("[evaluations.{}]\ntype = {}\ndata = {}\n{}",
                                      kTask,
                                      Value(options.task).text(),
                                      Value(options.data).text(),
                                      keys_of(options))};
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
    return StoredModel(options.checkpoint, options.path, options.sets, settings(options));
  };
  command.work = [&](const StoredModel& model,
                     const RunSetup& setup,
                     const RankIdentity& identity,
                     const RankFailed& failed) {
    measure(model, setup, identity, options, failed);
  };
  return run_stored(command);
}

}  // namespace tessera
