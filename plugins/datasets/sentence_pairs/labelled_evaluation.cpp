#include "labelled_evaluation.hpp"

#include "class_scores.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

// Scores of a head are known by their places alone.
const ClassesEvaluation::Config& checked(const ClassesEvaluation::Config& config) {
  if (config.run_classes.empty() || config.classes == config.run_classes) return config;
  fail_config("classes: {}; the head's scores are those of the run's data.classes: {}",
              fmt::join(config.classes, ", "),
              fmt::join(config.run_classes, ", "));
}

}  // namespace

void ClassesEvaluation::Config::describe(Schema<Config>& s) {
  s.field("data", &Config::data, "a JSONL file of texts with a class").is_path().required();
  describe_labelled(s, {.measures = true});
  s.field(
       "run_classes",
       &Config::run_classes,
       "the classes of the run's data, whose scores the head gives: others, or another order, are "
       "refused; []: not known")
      .from("data.classes");
}

ClassesEvaluation::ClassesEvaluation(const Config& config, EvaluationArguments& arguments)
    : classes_(config.classes),
      samples_(pairs_of(checked(config).task("classes"), {config.data}, arguments, {})),
      dataset_(std::make_shared<const TaskDataset>("classes", samples_)) {}

EvaluationResults ClassesEvaluation::do_evaluate_samples(const SampleScores& scores) const {
  check_scores(scores, samples_->size(), static_cast<i64>(classes_.size()), "one a class");
  const std::vector<i64> found = likeliest_classes(scores);
  const std::vector<i64>& labels = samples_->labels();
  std::vector<i64> there(classes_.size()), right(classes_.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto of = static_cast<std::size_t>(labels[i]);
    ++there[of];
    if (found[i] == labels[i]) ++right[of];
  }
  EvaluationResults results = {{"texts", samples_->size()}, {"accuracy", accuracy(found, labels)}};
  for (std::size_t of = 0; of < classes_.size(); ++of) {
    results.emplace_back(fmt::format("{}_texts", classes_[of]), there[of]);
    if (there[of] == 0) continue;  // a share of nothing
    results.emplace_back(fmt::format("{}_recall", classes_[of]),
                         static_cast<double>(right[of]) / static_cast<double>(there[of]));
  }
  return results;
}

}  // namespace tessera
