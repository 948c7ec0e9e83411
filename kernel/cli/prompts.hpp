#pragma once
#include <string>
#include <string_view>
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
/// The same of any file of texts: `flag` names it ("--data"), `field` is what an object holds, and
/// `empty` says why an empty one is refused.
std::vector<Prompt> read_texts(const std::string& path,
                               std::string_view flag,
                               std::string_view field,
                               std::string_view empty);

}  // namespace tessera
