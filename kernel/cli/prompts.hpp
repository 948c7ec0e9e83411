#pragma once
#include <string>
#include <vector>

namespace tessera {

struct GenerateOptions;

/// A text to continue, and where it was given: "--prompt", or a file and a line.
struct Prompt {
  std::string text, where;
};

/// The prompts of a command line: --prompt, or those of the file --prompts, which has one a line
/// or, where its name ends in .jsonl, an object {"prompt": "…"} a line. At least one, and none is
/// empty. Throws ConfigError naming flag, file and line.
std::vector<Prompt> read_prompts(const GenerateOptions& options);

}  // namespace tessera
