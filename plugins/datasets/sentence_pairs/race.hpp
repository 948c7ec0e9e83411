#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// An article of RACE (Lai et al. 2017) with its questions.
struct RaceArticle {
  struct Question {
    std::vector<std::string> choices;  ///< each as the question with it
    i64 answer = 0;                    ///< which of them
  };
  std::string text;
  std::vector<Question> questions;
};

/// Reads a file of RACE, an object {"article", "questions", "options", "answers"}: of each question
/// `choices` options and a letter. A choice is the question with it in the place of "_", or after
/// it and a space where it has none. Throws ConfigError that names the file and what is wrong:
/// "3.txt: options[2] has 3 texts, and choices = 4".
RaceArticle parse_race(std::string_view text, const std::string& file, i64 choices);

/// The .txt files of a folder in the order of their names, of each part that RACE has: of `path`
/// itself ("") or of its folders "middle" and "high".
struct RacePart {
  std::string name;
  std::vector<std::string> files;
};
/// Throws ConfigError, which begins with `key`, where there are none, or files lie beside folders.
std::vector<RacePart> race_parts(const std::string& path, std::string_view key);

}  // namespace tessera
