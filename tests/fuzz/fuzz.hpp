#pragma once
#include <functional>
#include <string>
#include <vector>

namespace tessera::fuzz {

/// A parser that is fed with broken texts. Whatever it is given, it returns or throws
/// tessera::Error; anything else is a finding.
struct Target {
  std::string name;
  std::vector<std::string> seeds;   ///< valid inputs, which are mutated
  std::vector<std::string> tokens;  ///< pieces of the format, which are inserted
  std::function<void(const std::string&)> run;
  std::vector<std::string> planted = {};  ///< inputs that once ended a reader; mutated as well
};

/// All targets, in the order in which they are documented.
std::vector<Target> targets();

/// Those of files of tokenizers.
std::vector<Target> tokenizer_targets();

/// Those of files of tasks that a model is fine-tuned for.
std::vector<Target> task_targets();

/// Something within itself, `times` over.
std::string nested(const std::string& open, const std::string& close, int times);

/// Ends the program with the text: a parser took something that it should not have taken.
[[noreturn]] void finding(const std::string& what);

}  // namespace tessera::fuzz
