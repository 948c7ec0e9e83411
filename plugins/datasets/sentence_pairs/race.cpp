#include "race.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "json_place.hpp"
#include "tessera/error.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

std::string with_choice(const std::string& question, const std::string& choice) {
  if (question.find('_') == question.npos) return question + " " + choice;
  std::string text;
  for (const char c : question) c == '_' ? text += choice : text += c;
  return text;
}

std::vector<std::string> texts_in(const fs::path& folder, std::string_view key) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    if (path.extension() == ".txt") files.push_back(path.string());
  }
  if (error) fail_config("{}: cannot read {}: {}", key, written_path(folder), SystemError(error));
  std::ranges::sort(files);
  return files;
}

}  // namespace

RaceArticle parse_race(std::string_view text, const std::string& file, i64 choices) {
  const auto json = parse_json_object<nlohmann::json, ConfigError>(text, file);
  const JsonPlace root(json, file);
  RaceArticle article;
  article.text = root.at("article").text();
  const JsonPlace questions = root.at("questions"), options = root.at("options"),
                  answers = root.at("answers");
  for (const JsonPlace& list : {options, answers}) {
    if (list.size() == questions.size()) continue;
    fail_config("{} has {} elements, and there are {} questions",
                list.place(),
                list.size(),
                questions.size());
  }
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const std::string& question = questions.at(i).text();
    const JsonPlace own = options.at(i), letter = answers.at(i);
    if (static_cast<i64>(own.size()) != choices) {
      fail_config("{} has {} texts, and choices = {}", own.place(), own.size(), choices);
    }
    RaceArticle::Question& made = article.questions.emplace_back();
    for (std::size_t k = 0; k < own.size(); ++k) {
      made.choices.push_back(with_choice(question, own.at(k).text()));
    }
    const char last = static_cast<char>('A' + choices - 1);
    const std::string& answer = letter.text();
    if (answer.size() != 1 || answer[0] < 'A' || answer[0] > last) {
      fail_config("{} is {}, which is no letter from A to {}", letter.place(), quote(answer), last);
    }
    made.answer = answer[0] - 'A';
  }
  return article;
}

std::vector<RacePart> race_parts(const std::string& path, std::string_view key) {
  std::error_code unknown;
  if (!fs::is_directory(path, unknown)) {
    fail_config(
        "{}: {} is no folder; RACE is a folder of .txt files, or one with the folders "
        "middle and high",
        key,
        written_path(path));
  }
  std::vector<RacePart> parts;
  if (auto files = texts_in(path, key); !files.empty()) parts.push_back({"", std::move(files)});
  for (const char* name : {"middle", "high"}) {
    const fs::path folder = fs::path(path) / name;
    if (!fs::is_directory(folder, unknown)) continue;
    if (!parts.empty() && parts.front().name.empty()) {
      fail_config(
          "{}: {} has .txt files and a folder {}; which are meant?", key, written_path(path), name);
    }
    auto files = texts_in(folder, key);
    if (files.empty()) fail_config("{}: {} has no .txt file", key, written_path(folder));
    parts.push_back({name, std::move(files)});
  }
  if (parts.empty()) {
    fail_config("{}: {} has no .txt file, and no folder middle or high", key, written_path(path));
  }
  return parts;
}

}  // namespace tessera
