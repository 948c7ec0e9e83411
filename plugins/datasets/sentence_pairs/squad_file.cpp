#include "squad_file.hpp"

#include <nlohmann/json.hpp>
#include <optional>

#include "json_place.hpp"
#include "tessera/error.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/utf8.hpp"

namespace tessera {

namespace {

// Bytes at which the characters of a text begin.
class CharacterStarts {
 public:
  explicit CharacterStarts(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (!inside_character(text[i])) starts_.push_back(i);
    }
  }
  std::size_t size() const { return starts_.size(); }
  std::size_t operator[](std::size_t character) const { return starts_[character]; }

 private:
  std::vector<std::size_t> starts_;
};

SquadAnswer answer_of(const JsonPlace& json, const CharacterStarts& starts) {
  const JsonPlace begin = json.at("answer_start"), text = json.at("text");
  const u64 character = begin.count();
  if (character >= starts.size()) {
    fail_config(
        "{} {} is beyond a context of {} characters", begin.place(), character, starts.size());
  }
  if (text.text().empty()) fail_config("{} is empty", text.place());
  return {text.text(), starts[character]};
}

// `told`: whether earlier questions have "is_impossible".
SquadQuestion question_of(const JsonPlace& json,
                          const CharacterStarts& starts,
                          std::optional<bool>& told) {
  SquadQuestion question{json.at("question").text(), {}};
  const bool tells = json.has("is_impossible");
  if (told.value_or(tells) != tells) {
    fail_config("{} has {} \"is_impossible\", unlike questions before it",
                json.place(),
                tells ? "an" : "no");
  }
  told = tells;
  const JsonPlace answers = json.at("answers");
  const bool impossible = tells && json.at("is_impossible").truth();
  if (impossible != (answers.size() == 0)) {
    fail_config("{} has {} answers{}",
                json.place(),
                answers.size(),
                impossible ? ", and is_impossible = true"
                : tells    ? ", and is_impossible = false"
                           : "");
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    question.answers.push_back(answer_of(answers.at(i), starts));
  }
  return question;
}

}  // namespace

SquadFile parse_squad(std::string_view text, const std::string& file) {
  const auto json = parse_json_object<nlohmann::json, ConfigError>(text, file);
  const JsonPlace root(json, file), data = root.at("data");
  SquadFile made;
  std::optional<bool> told;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const JsonPlace article = data.at(i), paragraphs = article.at("paragraphs");
    for (std::size_t j = 0; j < paragraphs.size(); ++j) {
      const JsonPlace paragraph = paragraphs.at(j), questions = paragraph.at("qas");
      SquadContext& context = made.contexts.emplace_back();
      context.text = paragraph.at("context").text();
      context.article = i;
      context.paragraph = j;
      const CharacterStarts starts(context.text);
      for (std::size_t k = 0; k < questions.size(); ++k) {
        context.questions.push_back(question_of(questions.at(k), starts, told));
      }
    }
  }
  if (!told) fail_config("{} has no question", file);
  made.no_answers = *told;
  return made;
}

}  // namespace tessera
