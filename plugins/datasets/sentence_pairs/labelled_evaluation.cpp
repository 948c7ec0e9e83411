#include "labelled_evaluation.hpp"

#include "class_scores.hpp"

namespace tessera {

void ClassesEvaluation::Config::describe(Schema<Config>& s) {
  s.field("data", &Config::data, "a JSONL file of texts with a class").is_path().required();
  describe_labelled(s, {.measures = true});
}

ClassesEvaluation::ClassesEvaluation(const Config& config, EvaluationArguments& arguments)
    : classes_(config.classes),
      samples_(pairs_of(config.task(), {config.data}, arguments, {})),
      dataset_(std::make_shared<const TaskDataset>("classes", samples_)) {}

EvaluationResults ClassesEvaluation::do_evaluate_samples(const SampleScores& scores) const {
  const auto count = static_cast<i64>(classes_.size());
  check_scores(scores, samples_->size(), count, "one a class");
  const std::vector<i64> found = likeliest_classes(scores);
  const std::vector<i64>& labels = samples_->labels();
  EvaluationResults results = {{"texts", samples_->size()}, {"accuracy", accuracy(found, labels)}};
  for (i64 of = 0; of < count; ++of) {
    i64 there = 0, right = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      there += labels[i] == of ? 1 : 0;
      right += labels[i] == of && found[i] == of ? 1 : 0;
    }
    const std::string& name = classes_[static_cast<std::size_t>(of)];
    results.emplace_back(fmt::format("{}_texts", name), there);
    if (there == 0) continue;  // a share of nothing
    results.emplace_back(fmt::format("{}_recall", name),
                         static_cast<double>(right) / static_cast<double>(there));
  }
  return results;
}

}  // namespace tessera
