#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

struct SquadAnswer {
  std::string text;
  std::size_t begin = 0;  ///< byte of the context where the file says that it begins
};
struct SquadQuestion {
  std::string text;
  std::vector<SquadAnswer> answers;  ///< none: it has no answer (SQuAD 2.0)
};
/// A paragraph and what is asked of it.
struct SquadContext {
  std::string text;
  std::vector<SquadQuestion> questions;
  std::size_t article = 0, paragraph = 0;  ///< its place in the file
};
struct SquadFile {
  bool no_answers = false;  ///< SQuAD 2.0: its questions may have no answer, and say so
  std::vector<SquadContext> contexts;
};

/// Reads a file of SQuAD (Rajpurkar et al. 2016, 2018): {"data": [{"paragraphs": [{"context",
/// "qas": [{"question", "answers": [{"text", "answer_start"}], "is_impossible"}]}]}]}. It is 2.0
/// where questions have "is_impossible". Throws ConfigError that names the file and the place:
/// "dev.json: data[3].paragraphs[0].qas[2].answers[0].answer_start 512 is beyond a context of 498
/// characters".
SquadFile parse_squad(std::string_view text, const std::string& file);

}  // namespace tessera
