#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/eval_layout.hpp"
#include "kernel/cli/stored_model.hpp"
#include "kernel/cli/text_printer.hpp"
#include "kernel/config/toml.hpp"
#include "kernel/train/run/loaded_model.hpp"
#include "kernel/train/run/sample_scores.hpp"
#include "kernel/train/run/validations.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

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

ConfigText settings(const EvalOptions& options) {
  ConfigText settings = eval_layout(options);
  settings.text += fmt::format("[evaluations.{}]\ntype = {}\ndata = {}\n{}",
                               kCommandEvaluation,
                               Value(options.task).text(),
                               Value(options.data).text(),
                               keys_of(options));
  return settings;
}

// Results of one model, with what `json` has already.
void print(Json json, const EvaluationResults& results, bool as_json) {
  std::size_t widest = 0;
  for (const auto& [name, value] : results) widest = std::max(widest, name.size());
  for (const auto& [name, value] : results) {
    std::visit(
        [&](const auto& plain) {
          using T = std::decay_t<decltype(plain)>;
          if constexpr (std::is_same_v<T, double> || std::is_same_v<T, i64> ||
                        std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
            json.add(name, Json(plain));
            if (!as_json) print_now(fmt::format("{:<{}}  {}\n", name, widest, plain));
          }
        },
        value.data);
  }
  if (as_json) print_now(json.text() + "\n");
}

/// One rank's work: a model of a checkpoint at a time.
class Measuring {
 public:
  Measuring(const EvalOptions& options, const RankIdentity& identity, const RankFailed& failed)
      : options_(options), identity_(identity), failed_(failed) {}

  void run(const StoredModel& model, const RunSetup& setup) {
    const EvaluationResults results =
        options_.ensemble.empty() ? measured(model, setup) : measured_together(model, setup);
    tell(options_.checkpoint, options_.data, results);
    if (options_.seeds.empty()) return;
    std::vector<Run> runs = {{number_of(results), options_.checkpoint}};
    for (const std::string& checkpoint : options_.seeds) {
      const EvaluationResults further = measured_at(checkpoint, options_);
      tell(checkpoint, options_.data, further);
      runs.push_back({number_of(further), checkpoint});
    }
    tell_median(std::move(runs), results);
  }

 private:
  struct Run {
    double number;
    std::string checkpoint;
  };

  // With a model that is loaded for it.
  template <class Use>
  auto with(const StoredModel& model, const RunSetup& setup, const Use& use) const {
    LoadedModel loaded(setup, model.folder.string(), identity_, "evaluate");
    try {
      return use(loaded.placed(), *setup.evaluations.at(0).second);
    } catch (const std::exception& error) {
      failed_(error);
      loaded.rank().abort(error.what());
      throw;
    }
  }
  EvaluationResults measured(const StoredModel& model, const RunSetup& setup) const {
    return with(model, setup, [](PlacedModel& placed, const EvaluationTask& task) {
      return Validations(placed).measured(task);
    });
  }
  EvaluationResults measured_at(const std::string& checkpoint, const EvalOptions& options) const {
    const StoredModel model(checkpoint, options.path, options.sets, settings(options));
    return measured(model, model.setup(identity_.world, DataUse::evaluation));
  }

  // The mean of what the models say of each sample.
  EvaluationResults measured_together(const StoredModel& model, const RunSetup& setup) const {
    const auto part_of = [&](const StoredModel& of, const RunSetup& its) {
      return with(of, its, [](PlacedModel& placed, const EvaluationTask& task) {
        const auto samples = task.samples();
        if (samples == nullptr)
          fail_config("--ensemble: this evaluation is of texts, not of samples");
        SampleScores scores = score_all(placed, *samples);
        task.to_average(scores);
        return scores;
      });
    };
    SampleScores sum = part_of(model, setup);
    for (const std::string& checkpoint : options_.ensemble) {
      const StoredModel other(checkpoint, options_.path, options_.sets, settings(options_));
      add(sum, part_of(other, other.setup(identity_.world, DataUse::evaluation)), checkpoint);
    }
    const auto models = static_cast<float>(options_.ensemble.size() + 1);
    for (std::vector<float>& scores : sum) {
      for (float& score : scores) score /= models;
    }
    return setup.evaluations.at(0).second->evaluate_samples(sum);
  }
  static void add(SampleScores& sum, const SampleScores& scores, const std::string& checkpoint) {
    const auto width = [](const SampleScores& of) { return of.empty() ? 0 : of[0].size(); };
    if (scores.size() != sum.size() || width(scores) != width(sum)) {
      fail_config(
          "--ensemble {}: it scores {} samples by {} numbers each, and the first model {} by {}",
          checkpoint,
          scores.size(),
          width(scores),
          sum.size(),
          width(sum));
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      for (std::size_t k = 0; k < sum[i].size(); ++k) sum[i][k] += scores[i][k];
    }
  }

  // What runs are compared by: the first result that is no count.
  static EvaluationResults::const_iterator main_result(const EvaluationResults& results) {
    const auto found = std::ranges::find_if(results, [](const auto& result) {
      return std::holds_alternative<double>(result.second.data);
    });
    if (found == results.end()) fail_config("--seeds: this evaluation has no number to compare");
    return found;
  }
  static double number_of(const EvaluationResults& results) {
    return std::get<double>(main_result(results)->second.data);
  }

  void tell(const std::string& checkpoint,
            const std::string& data,
            const EvaluationResults& results) const {
    if (identity_.rank != 0) return;
    Json json;
    json.add("task", options_.task).add("checkpoint", checkpoint).add("data", data);
    if (!options_.ensemble.empty()) json.add("ensemble", Json::array(options_.ensemble));
    if (!options_.json && !options_.seeds.empty()) print_now(checkpoint + "\n");
    print(std::move(json), results, options_.json);
  }
  // Of an even number of runs the lower of the two in the middle, so that one of them has it.
  void tell_median(std::vector<Run> runs, const EvaluationResults& like) const {
    std::ranges::stable_sort(runs, {}, &Run::number);
    const Run& median = runs[(runs.size() - 1) / 2];
    if (identity_.rank == 0) {
      const std::string& name = main_result(like)->first;
      const EvaluationResults results = {
          {"median_of", name}, {"median", median.number}, {"median_run", median.checkpoint}};
      print(Json().add("task", options_.task), results, options_.json);
    }
    if (options_.test.empty()) return;
    EvalOptions options = options_;
    options.data = options_.test;
    tell(median.checkpoint, options_.test, measured_at(median.checkpoint, options));
  }

  const EvalOptions& options_;
  const RankIdentity& identity_;
  const RankFailed& failed_;
};

}  // namespace

int run_eval(const EvalOptions& options) {
  if (options.task == "embed") return run_embed(options);
  if (!options.ensemble.empty() && !options.seeds.empty()) {
    fail_config("--ensemble is one model of several, --seeds are several models: give one of them");
  }
  if (!options.test.empty() && options.seeds.empty()) {
    fail_config("--test is for the median of --seeds");
  }
  StoredCommand command{.doing = "evaluate", .ranks = options.ranks, .use = DataUse::evaluation};
  command.open = [&] {
    return StoredModel(options.checkpoint, options.path, options.sets, settings(options));
  };
  command.work = [&](const StoredModel& model,
                     const RunSetup& setup,
                     const RankIdentity& identity,
                     const RankFailed& failed) {
    Measuring(options, identity, failed).run(model, setup);
  };
  return run_stored(command);
}

}  // namespace tessera
