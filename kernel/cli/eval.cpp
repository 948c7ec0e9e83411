#include "kernel/cli/eval_runs.hpp"
#include "kernel/cli/eval_scores.hpp"
#include "kernel/system/limits.hpp"
#include "tessera/error.hpp"

namespace tessera {

int run_eval(const EvalOptions& options) {
  if (!options.ensemble.empty() && !options.seeds.empty()) {
    fail_config("--ensemble is one model of several, --seeds are several models: give one of them");
  }
  if (!options.test.empty() && options.seeds.empty()) {
    fail_config("--test is for the median of --seeds");
  }
  if (!options.scores.empty() && !options.seeds.empty()) {
    fail_config(
        "--scores is for what one model says, or the mean of --ensemble; --seeds are several");
  }
  if (options.task == "embed") {
    if (!options.scores.empty())
      fail_config("eval embed: it prints vectors; --scores has no place");
    if (options.ensemble.empty() && options.seeds.empty()) return run_embed(options);
    fail_config("eval embed: {} is for evaluations, which give numbers to average or compare",
                options.seeds.empty() ? "--ensemble" : "--seeds");
  }
  EvalModels models(options);
  StoredCommand command{.doing = "evaluate", .ranks = options.ranks, .use = DataUse::evaluation};
  command.open = [&] { return models.open(); };
  command.facts = [&] { return models.facts(); };
  command.before = [&](const StoredModel& model, const RunSetup& setup) {
    if (!options.scores.empty()) check_scores_file(options.scores, setup);
    if (options.ranks == 1) return false;  // this process measures
    models.read(model, setup, options.ranks);
    models.check_loadable(rank_threads(model.opened.config.run.device, options.ranks));
    return false;
  };
  command.work = [&](const StoredModel& model,
                     const RunSetup& setup,
                     const RankIdentity& identity,
                     const RankFailed& failed) {
    models.read(model, setup, identity.world);
    measure(options, models, model, setup, identity, failed);
  };
  return run_stored(command);
}

}  // namespace tessera
