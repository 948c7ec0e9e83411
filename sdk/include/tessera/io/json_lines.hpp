#pragma once
#include <algorithm>
#include <string>
#include <string_view>

#include "tessera/error.hpp"
#include "tessera/io/data_file.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

/// Calls take(object, line) for each line of a file that has a JSON object in each, from line 1 on;
/// blank lines are passed over. JsonTree as of parse_json. Throws ConfigError that begins with file
/// and line ("part.jsonl:118: …") for a line that is no object.
template <class JsonTree, class Take>
void for_each_json_line(const DataFile& file, const Take& take) {
  const std::string_view text = file.text();
  i64 line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view one = text.substr(at, end - at);
    at = end + 1;
    ++line;
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", written_path(file.path()), line);
    take(parse_json_object<JsonTree, ConfigError>(one, where), line);
  }
}

/// The string in a field of an object; throws ConfigError that begins with `where`.
template <class JsonTree>
std::string text_in(const JsonTree& object, const std::string& field, std::string_view where) {
  const auto found = object.find(field);
  if (found == object.end()) fail_config("{}: no field {}", where, quote(field));
  if (!found->is_string()) {
    fail_config(
        "{}: {} is {}, which is no text", where, quote(field), written_plain(found->dump()));
  }
  return found->template get<std::string>();
}

}  // namespace tessera
