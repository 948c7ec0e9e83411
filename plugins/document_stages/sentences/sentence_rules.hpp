#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

#include "abbreviations.hpp"

namespace tessera {

/// Cuts texts into sentences. One ends
/// - after ".", "!", "?" or "…", several of them, and quotes and brackets that close, where white
///   space follows and then no small letter and no mark that goes on ("," or "&");
/// - after "。", "！", "？", whatever follows;
/// - at an empty line (`lines`: at each line feed).
/// A single "." ends none after an abbreviation, nor after the number that a line begins with.
/// Thread-safe.
class SentenceRules {
 public:
  SentenceRules(Abbreviations abbreviations, bool lines)
      : abbreviations_(std::move(abbreviations)), lines_(lines) {}
  /// Its sentences in order, without white space around them: all other characters of the text,
  /// which is UTF-8.
  std::vector<std::string_view> cut(std::string_view text) const;

 private:
  // A place where a sentence may end.
  struct Marks {
    std::string_view word;      // before them, from the last white space on
    bool first_of_line = true;  // the word
    std::string_view marks;     // "?!"
    bool wide = false;          // the last one is full-width
    bool closed = false;        // by quotes or brackets
    std::string_view rest;      // of the text
  };
  bool ends(const Marks& marks) const;
  bool stop_ends(const Marks& marks, std::string_view next) const;

  Abbreviations abbreviations_;
  bool lines_;
};

}  // namespace tessera
