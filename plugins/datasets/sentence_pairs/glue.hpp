#pragma once
#include <functional>
#include <string_view>

#include "tab_rows.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// Two texts and which class they are of.
struct SentencePair {
  std::string_view a, b;  ///< of the file's text; each has a character that is no white space
  i64 label = 0;
  i64 line = 0;
};
using TakePair = std::function<void(const SentencePair&)>;

/// Classes of MNLI (contradiction, entailment, neutral) and of QQP (different, duplicate).
inline constexpr i64 kMnliClasses = 3, kQqpClasses = 2;

/// Calls take(pair) for each row of a file of MNLI or QQP as GLUE has them (Wang et al. 2019). Of
/// MNLI: columns 8 and 9, counted from 0, and the last one, a word. Of QQP: columns 3, 4 and 5 of
/// 6. `bad` gets rows of another number of columns, and those with an empty text. Throws
/// ConfigError with file and line for other labels, for a file of GLUE's test set, which has no
/// labels (10 columns; 3), and for one that does not begin with the names of its columns.
void for_each_mnli(std::string_view text,
                   std::string_view file,
                   BadRows& bad,
                   const TakePair& take);
void for_each_qqp(std::string_view text, std::string_view file, BadRows& bad, const TakePair& take);

}  // namespace tessera
