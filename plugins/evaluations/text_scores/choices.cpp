#include "choices.hpp"

#include <algorithm>

#include "continuation.hpp"
#include "tessera/error.hpp"
#include "tessera/io/utf8.hpp"
#include "tessera/io/written.hpp"
#include "text_lines.hpp"

namespace tessera {

namespace {

struct Question {
  std::vector<i64> characters;  // of each choice
  i64 answer = 0;
};

// Context and choice are encoded together, so that a token may begin with the space between them;
// white space at the end of the context belongs to the choice.
ScoredText text_of(const Tokenizer& tokenizer,
                   std::string context,
                   const std::string& choice,
                   const TextScorer& scorer,
                   const std::string& where) {
  const std::size_t end = context.find_last_not_of(kWhiteSpace) + 1;
  const std::string whole = context + " " + choice;
  context.resize(end);
  std::vector<i32> before = tokenizer.encode(context), all = tokenizer.encode(whole);
  const auto from = static_cast<std::ptrdiff_t>(std::min(before.size(), all.size()));
  return continued(
      {all.begin(), all.begin() + from}, {all.begin() + from, all.end()}, scorer, where);
}

i64 likeliest(const std::vector<double>& scores) {
  return std::ranges::max_element(scores) - scores.begin();
}

}  // namespace

void Choices::Config::describe(Schema<Config>& s) {
  describe_file(
      s,
      "questions: objects with \"context\", \"choices\" (texts that follow it after a space) and "
      "\"answer\" (which of them, from 0 on), one a line, of a .jsonl");
}

EvaluationResults Choices::do_evaluate(TextScorer& scorer) const {
  std::vector<ScoredText> texts;
  std::vector<Question> questions;
  for_each_object(file(), [&](const nlohmann::json& object, const std::string& where) {
    const std::string context = text_in(object, "context", where);
    const auto choices = object.find("choices");
    if (choices == object.end() || !choices->is_array() || choices->size() < 2) {
      fail_config("{}: \"choices\" is an array of two texts or more", where);
    }
    Question& question = questions.emplace_back();
    for (const nlohmann::json& choice : *choices) {
      if (!choice.is_string() || choice.get<std::string>().empty()) {
        fail_config("{}: a choice is {}, which is no text", where, written_plain(choice.dump()));
      }
      const auto text = choice.get<std::string>();
      question.characters.push_back(characters_of(text));
      texts.push_back(text_of(tokenizer(), context, text, scorer, where));
    }
    const auto answer = object.find("answer");
    if (answer == object.end() || !answer->is_number_unsigned() ||
        answer->get<u64>() >= choices->size()) {
      fail_config("{}: \"answer\" is a number from 0 to {}", where, choices->size() - 1);
    }
    question.answer = answer->get<i64>();
  });
  if (questions.empty()) fail_config("data: {} has no question", file().path());
  const std::vector<std::vector<TokenScore>> scores = scorer.score(texts);
  i64 plain = 0, by_character = 0;
  double nats = 0;
  std::size_t next = 0;
  for (const Question& question : questions) {
    std::vector<double> sums, normed;
    for (const i64 characters : question.characters) {
      double sum = 0;
      for (const TokenScore& score : scores[next]) sum += score.log_probability;
      ++next;
      sums.push_back(sum);
      normed.push_back(sum / static_cast<double>(characters));
    }
    nats -= sums[static_cast<std::size_t>(question.answer)];
    plain += likeliest(sums) == question.answer ? 1 : 0;
    by_character += likeliest(normed) == question.answer ? 1 : 0;
  }
  const auto share = [&](i64 right) {
    return static_cast<double>(right) / static_cast<double>(questions.size());
  };
  return {{"questions", static_cast<i64>(questions.size())},
          {"accuracy", share(plain)},
          {"accuracy_by_characters", share(by_character)},
          {"nats", nats}};
}

}  // namespace tessera
