#include "squad_evaluation.hpp"

#include "answer_text.hpp"
#include "class_scores.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

// Means of scores.
class MeanScore {
 public:
  void add(const AnswerScore& score) {
    ++count_;
    exact_ += score.exact;
    f1_ += score.f1;
  }
  void tell(const std::string& prefix, EvaluationResults& results) const {
    if (count_ == 0) return;
    const auto count = static_cast<double>(count_);
    results.emplace_back(prefix + "questions", count_);
    results.emplace_back(prefix + "exact_match", exact_ / count);
    results.emplace_back(prefix + "f1", f1_ / count);
  }

 private:
  i64 count_ = 0;
  double exact_ = 0, f1_ = 0;
};

}  // namespace

void SquadEvaluation::Config::describe(Schema<Config>& s) {
  s.field("data",
          &Config::data,
          "a file of SQuAD (dev-v1.1.json, dev-v2.0.json); it is 2.0 where its questions have "
          "\"is_impossible\"")
      .is_path()
      .required();
  describe_spans(s, {.measures = true});
  s.field("answer", &Config::answer, "most tokens of an answer")
      .at_least(1)
      .at_most(kMostPositions)
      .also("max_answer_length");
  s.field("best",
          &Config::best,
          "how many of the likeliest begins, and of the likeliest ends, of a window are looked at")
      .at_least(1)
      .at_most(kMostPositions)
      .also("n_best_size");
  s.field("null_threshold",
          &Config::null_threshold,
          "of SQuAD 2.0: a question has no answer where that is likelier than the best answer by "
          "more than this, in logits; auto: 0")
      .also("null_score_diff_threshold");
}

SquadEvaluation::SquadEvaluation(const Config& config, EvaluationArguments& arguments)
    : limits_{.best = config.best, .longest = config.answer},
      null_threshold_(config.null_threshold.value_or(0)),
      length_(arguments.sequence_length),
      samples_(std::make_shared<const SquadSamples>(
          std::vector<std::string>{config.data},
          "data",
          config,
          SquadSamples::How{
              .tokenizer = *arguments.tokenizer, .length = length_, .to_measure = true})),
      dataset_(std::make_shared<const TaskDataset>("squad", samples_)) {
  if (config.null_threshold && !samples_->no_answers()) {
    fail_config("null_threshold = {}, and each question of the file has an answer (SQuAD 1.1)",
                null_threshold_);
  }
}

std::vector<WindowScores> SquadEvaluation::windows_of(const SquadSamples::Question& question,
                                                      const SampleScores& scores) const {
  std::vector<WindowScores> windows;
  for (i64 i = 0; i < question.samples; ++i) {
    const auto number = static_cast<std::size_t>(question.first_sample + i);
    const ContextWindow tokens = samples_->windows()[number];
    const std::span<const float> of(scores[number]);
    const auto begins = of.first(static_cast<std::size_t>(length_));
    const auto ends = of.last(static_cast<std::size_t>(length_));
    const auto place = static_cast<std::size_t>(question.place);
    const auto count = static_cast<std::size_t>(tokens.end - tokens.begin);
    windows.push_back({.tokens = tokens,
                       .begin = begins.subspan(place, count),
                       .end = ends.subspan(place, count),
                       .none = double{begins[0]} + double{ends[0]}});
  }
  return windows;
}

std::string SquadEvaluation::answer_to(const SquadSamples::Question& question,
                                       const SampleScores& scores) const {
  const std::vector<WindowScores> windows = windows_of(question, scores);
  const std::optional<BestSpan> best = best_span(windows, limits_);
  if (samples_->no_answers() && has_no_answer(windows, best, null_threshold_)) return "";
  if (!best) return "";
  const auto& [source, tokens] = samples_->kept()[question.context];
  const u32 begin = tokens.begin[static_cast<std::size_t>(best->tokens.first)];
  const u32 end = tokens.end[static_cast<std::size_t>(best->tokens.last)];
  return source.text.substr(begin, end - begin);
}

EvaluationResults SquadEvaluation::do_evaluate_samples(const SampleScores& scores) const {
  check_scores(scores, samples_->size(), 2 * length_, "a begin and an end of each place");
  const bool no_answers = samples_->no_answers();
  MeanScore all, with, without;
  for (const SquadSamples::Question& question : samples_->questions()) {
    const SquadQuestion& asked =
        samples_->kept()[question.context].source.questions[question.number];
    std::vector<std::string_view> answers;
    for (const SquadAnswer& answer : asked.answers) answers.push_back(answer.text);
    const AnswerScore score = score_answer(answer_to(question, scores), answers, no_answers);
    all.add(score);
    (answers.empty() ? without : with).add(score);
  }
  EvaluationResults results = {{"windows", samples_->size()}};
  all.tell("", results);
  if (no_answers) {
    with.tell("has_answer_", results);
    without.tell("no_answer_", results);
  }
  return results;
}

}  // namespace tessera
