#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The sentences that the library's trainer is given: the lines of texts. It passes over what it
/// cannot take, without a word: lines of more than 4,192 bytes, and those with a zero byte or with
/// U+2585, its mark of the unknown. So longer lines are cut, before a space where there is one, and
/// lines are cut at these characters.
class TrainingSentences {
 public:
  explicit TrainingSentences(const std::vector<std::string>& texts) : texts_(texts) {}
  /// The next one, which is not empty; false: there are no more.
  bool next(std::string& sentence);

 private:
  std::string_view next_line();

  const std::vector<std::string>& texts_;
  std::size_t text_ = 0, at_ = 0;
  std::string_view line_;  // what is left of it
};

}  // namespace tessera
