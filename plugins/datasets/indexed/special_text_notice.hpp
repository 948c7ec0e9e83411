#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tessera/data.hpp"

namespace tessera {

/// A warning where special tokens stay text that `tessera generate` parses in a prompt: of the
/// first such text, looked for in so many texts that it costs no second encoding of all.
class SpecialTextNotice {
 public:
  static constexpr int kExamples = 1000;
  /// `special`: what becomes of them in the texts.
  SpecialTextNotice(const Tokenizer& tokenizer, SpecialTexts special);
  /// The next text, with its ids, in a field of an example ("part.jsonl:118").
  void look(const std::string& text,
            const std::vector<i32>& ids,
            const std::string& field,
            const std::string& where);

 private:
  std::unique_ptr<TextEncoder> parser_;  // nullptr: nothing is looked for
  std::vector<i32> parsed_;
  int texts_ = 0;
};

}  // namespace tessera
