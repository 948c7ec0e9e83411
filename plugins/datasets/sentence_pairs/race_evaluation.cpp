#include "race_evaluation.hpp"

#include "class_scores.hpp"

namespace tessera {

void RaceEvaluation::Config::describe(Schema<Config>& s) {
  s.field("data",
          &Config::data,
          "a folder of RACE (dev, test), which has folders middle and high, or one of these")
      .is_path()
      .required();
  describe_choices(s, {.measures = true});
}

RaceEvaluation::RaceEvaluation(const Config& config, EvaluationArguments& arguments)
    : samples_(std::make_shared<const ChoiceSamples>(std::vector<std::string>{config.data},
                                                     "data",
                                                     config,
                                                     *arguments.tokenizer,
                                                     arguments.sequence_length,
                                                     0)),
      dataset_(std::make_shared<const TaskDataset>("race", samples_)) {}

EvaluationResults RaceEvaluation::do_evaluate_samples(const SampleScores& scores) const {
  check_scores(scores, samples_->size(), samples_->choices(), "one a choice");
  const std::vector<i64> found = likeliest_classes(scores);
  std::vector<i64> answers;
  for (i64 i = 0; i < samples_->size(); ++i) answers.push_back(samples_->answer(i));
  EvaluationResults results = {{"questions", samples_->size()},
                               {"accuracy", accuracy(found, answers)}};
  for (const ChoiceSamples::Part& part : samples_->parts()) {
    if (part.name.empty()) continue;  // the folder has the files itself
    const auto begin = static_cast<std::size_t>(part.begin);
    const auto count = static_cast<std::size_t>(part.end) - begin;
    results.emplace_back(part.name + "_questions", static_cast<i64>(count));
    results.emplace_back(
        part.name + "_accuracy",
        accuracy(std::span(found).subspan(begin, count), std::span(answers).subspan(begin, count)));
  }
  return results;
}

}  // namespace tessera
