#include "pair_evaluations.hpp"

#include "class_scores.hpp"

namespace tessera {

std::shared_ptr<const PairSamples> pairs_of(const PairTask& task,
                                            const std::vector<std::string>& paths,
                                            const EvaluationArguments& arguments,
                                            const BadRows& bad) {
  return std::make_shared<const PairSamples>(
      task,
      paths,
      "data",
      PairSamples::How{
          .tokenizer = *arguments.tokenizer, .length = arguments.sequence_length, .bad = bad});
}

void ClassEvaluation::do_to_average(SampleScores& scores) const { to_probabilities(scores); }

void MnliEvaluation::Config::describe(Schema<Config>& s) {
  s.field("data",
          &Config::data,
          "a file of MNLI as GLUE has them, with labels: dev_matched.tsv, or dev_mismatched.tsv "
          "alone; its results are pairs and accuracy")
      .is_path()
      .required();
  s.field("mismatched",
          &Config::mismatched,
          "a second such file, which is measured apart, dev_mismatched.tsv; its results are "
          "mismatched_pairs and mismatched_accuracy")
      .is_path();
}

MnliEvaluation::MnliEvaluation(const Config& config, EvaluationArguments& arguments) {
  std::vector<std::string> paths = {config.data};
  if (!config.mismatched.empty()) paths.push_back(config.mismatched);
  samples_ = pairs_of(mnli_task(), paths, arguments, {});
  dataset_ = std::make_shared<const TaskDataset>("mnli", samples_);
}

EvaluationResults MnliEvaluation::do_evaluate_samples(const SampleScores& scores) const {
  check_scores(scores, samples_->size(), kMnliClasses, "one a class");
  const std::vector<i64> found = likeliest_classes(scores);
  const std::vector<i64>& ends = samples_->ends();
  EvaluationResults results;
  // The names of the first file's results are the same with a second file and without.
  const char* const prefixes[] = {"", "mismatched_"};
  for (std::size_t i = 0, begin = 0; i < ends.size(); ++i) {
    const std::size_t count = static_cast<std::size_t>(ends[i]) - begin;
    const std::span<const i64> own = std::span(found).subspan(begin, count);
    const std::span<const i64> labels = std::span(samples_->labels()).subspan(begin, count);
    results.emplace_back(fmt::format("{}pairs", prefixes[i]), static_cast<i64>(count));
    results.emplace_back(fmt::format("{}accuracy", prefixes[i]), accuracy(own, labels));
    begin += count;
  }
  return results;
}

void QqpEvaluation::Config::describe(Schema<Config>& s) {
  s.field("data", &Config::data, "a file of QQP as GLUE has them, with labels: dev.tsv")
      .is_path()
      .required();
  describe_bad_lines(s, {.measures = true});
}

QqpEvaluation::QqpEvaluation(const Config& config, EvaluationArguments& arguments)
    : samples_(pairs_of(qqp_task(), {config.data}, arguments, config.bad_rows())),
      dataset_(std::make_shared<const TaskDataset>("qqp", samples_)) {}

EvaluationResults QqpEvaluation::do_evaluate_samples(const SampleScores& scores) const {
  check_scores(scores, samples_->size(), kQqpClasses, "one a class");
  const std::vector<i64> found = likeliest_classes(scores);
  return {{"pairs", samples_->size()},
          {"lines_left_out", samples_->left_out()},
          {"accuracy", accuracy(found, samples_->labels())},
          {"f1", f1_of_class_1(found, samples_->labels())}};
}

}  // namespace tessera
