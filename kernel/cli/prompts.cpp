#include "kernel/cli/prompts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernel/cli/commands.hpp"
#include "tessera/error.hpp"
#include "tessera/io/data_file.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/utf8.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

void require_utf8(std::string_view line, const std::string& where) {
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t length = character_length(line.substr(at));
    if (length == 0) fail_config("{} is no UTF-8 at byte {}", where, at + 1);
    at += length;
  }
}

std::string text_of_object(std::string_view line,
                           const std::string& field,
                           const std::string& where) {
  const auto json = parse_json_object<nlohmann::json, ConfigError>(line, where);
  for (const auto& [key, value] : json.items()) {
    if (key != field) fail_config("{} has {}; only \"{}\" is known", where, quote(key), field);
  }
  const auto text = json.find(field);
  if (text == json.end()) fail_config("{} has no \"{}\"", where, field);
  if (!text->is_string()) {
    fail_config("{}: \"{}\" is a JSON {} instead of a string", where, field, text->type_name());
  }
  return text->get<std::string>();
}

}  // namespace

std::vector<Prompt> read_texts(const std::string& path,
                               std::string_view flag,
                               std::string_view field,
                               std::string_view empty) {
  const DataFile file(path, flag);
  const std::string name = fmt::format("{} {}", flag, written_plain(path));
  const bool objects = path.ends_with(".jsonl");
  std::string_view rest = file.text();
  if (rest.starts_with(kByteOrderMark)) {
    fail_config("{} begins with a byte order mark: save it without", name);
  }
  std::vector<Prompt> prompts;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    std::string where = fmt::format("{}: line {}", name, prompts.size() + 1);
    require_utf8(line, where);
    std::string text = objects && !line.empty() ? text_of_object(line, std::string(field), where)
                                                : std::string(line);
    if (text.empty()) fail_config("{} is empty: {}", where, empty);
    prompts.push_back({std::move(text), std::move(where)});
  }
  if (prompts.empty()) fail_config("{} is empty: one {} a line", name, field);
  return prompts;
}

std::vector<Prompt> read_prompts(const GenerateOptions& options) {
  if (!options.prompts.empty()) {
    return read_texts(options.prompts, "--prompts", "prompt", "give the model a text to continue");
  }
  if (options.prompt.empty())
    fail_config("there is no text to continue: give --prompt TEXT or --prompts FILE");
  return {{options.prompt, "--prompt"}};
}

}  // namespace tessera
