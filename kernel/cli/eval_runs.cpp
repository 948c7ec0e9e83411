#include "kernel/cli/eval_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "kernel/cli/eval_scores.hpp"
#include "kernel/cli/text_printer.hpp"
#include "kernel/train/run/loaded_model.hpp"
#include "kernel/train/run/validations.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"

namespace tessera {

namespace {

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

// A model of a checkpoint at a time.
class Measuring {
 public:
  Measuring(const EvalOptions& options,
            const EvalModels& models,
            const RankIdentity& identity,
            const RankFailed& failed)
      : options_(options), models_(models), identity_(identity), failed_(failed) {}

  void run(const StoredModel& model, const RunSetup& setup) {
    const EvaluationResults results =
        options_.ensemble.empty() ? measured(model, setup) : measured_together(model, setup);
    tell(options_.checkpoint, options_.data, results);
    if (options_.seeds.empty()) return;
    std::vector<Run> runs = {{number_of(results), options_.checkpoint, &model}};
    for (const EvalModels::Further& further : models_.further()) {
      const EvaluationResults found = measured(further.stored, *further.setup);
      tell(further.name, options_.data, found);
      runs.push_back({number_of(found), further.name, &further.stored});
    }
    tell_median(std::move(runs), results);
  }

 private:
  struct Run {
    double number;
    std::string name;
    const StoredModel* model;
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
    return with(model, setup, [&](PlacedModel& placed, const EvaluationTask& task) {
      if (options_.scores.empty()) return Validations(placed).measured(task);
      return results_of(task, Validations(placed).scores(task));
    });
  }
  EvaluationResults results_of(const EvaluationTask& task, const SampleScores& scores) const {
    EvaluationResults results = task.evaluate_samples(scores);
    if (!options_.scores.empty() && identity_.rank == 0) {
      write_scores(options_.scores, *task.samples(), scores);
    }
    return results;
  }

  // The mean of what the models say of each sample.
  EvaluationResults measured_together(const StoredModel& model, const RunSetup& setup) const {
    const auto part_of = [&](const StoredModel& of, const RunSetup& its) {
      return with(of, its, [](PlacedModel& placed, const EvaluationTask& task) {
        SampleScores scores = Validations(placed).scores(task);
        task.to_average(scores);
        return scores;
      });
    };
    SampleScores sum = part_of(model, setup);
    for (const EvalModels::Further& further : models_.further()) {
      add(sum, part_of(further.stored, *further.setup), further.name);
    }
    const auto models = static_cast<float>(options_.ensemble.size() + 1);
    for (std::vector<float>& scores : sum) {
      for (float& score : scores) score /= models;
    }
    return results_of(*setup.evaluations.at(0).second, sum);
  }
  static void add(SampleScores& sum, const SampleScores& scores, const std::string& name) {
    const auto width = [](const SampleScores& of) { return of.empty() ? 0 : of[0].size(); };
    if (scores.size() != sum.size() || width(scores) != width(sum)) {
      fail_config(
          "--ensemble {}: it scores {} samples by {} numbers each, and the first model {} by {}",
          name,
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
          {"median_of", name}, {"median", median.number}, {"median_run", median.name}};
      print(Json().add("task", options_.task), results, options_.json);
    }
    if (options_.test.empty()) return;
    const StoredModel tested = models_.tested(*median.model);
    tell(median.name,
         options_.test,
         measured(tested, tested.setup(identity_.world, DataUse::evaluation)));
  }

  const EvalOptions& options_;
  const EvalModels& models_;
  const RankIdentity& identity_;
  const RankFailed& failed_;
};

}  // namespace

void measure(const EvalOptions& options,
             const EvalModels& models,
             const StoredModel& first,
             const RunSetup& setup,
             const RankIdentity& identity,
             const RankFailed& failed) {
  Measuring(options, models, identity, failed).run(first, setup);
}

}  // namespace tessera
