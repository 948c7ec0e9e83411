#include "text_lines.hpp"

#include "tessera/io/parse_json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

using Json = nlohmann::json;

void for_each_object(
    const DataFile& file,
    const std::function<void(const Json& object, const std::string& where)>& take) {
  const std::string_view text = file.text();
  i64 line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view one = text.substr(at, end - at);
    const std::string where = fmt::format("{}:{}", written_path(file.path()), ++line);
    at = end + 1;
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    take(parse_json_object<Json, ConfigError>(one, where), where);
  }
}

std::string text_in(const Json& object, const std::string& field, const std::string& where) {
  const auto found = object.find(field);
  if (found == object.end()) fail_config("{}: no field \"{}\"", where, field);
  if (!found->is_string()) {
    fail_config("{}: \"{}\" is {}, which is no text", where, field, written_plain(found->dump()));
  }
  return found->get<std::string>();
}

void for_each_document(
    const DataFile& file,
    const std::function<void(const std::string& text, const std::string& where)>& take) {
  i64 documents = 0;
  if (file.path().ends_with(".jsonl")) {
    for_each_object(file, [&](const Json& object, const std::string& where) {
      take(text_in(object, "text", where), where);
      ++documents;
    });
  } else {
    if (!file.text().empty())
      take(std::string(file.text()), written_path(file.path())), ++documents;
  }
  if (documents == 0) fail_config("data: {} has no document", written_path(file.path()));
}

long long count_words(std::string_view text) {
  long long words = 0;
  for (std::size_t at = text.find_first_not_of(kWhiteSpace); at < text.size();) {
    ++words;
    at = text.find_first_not_of(kWhiteSpace,
                                std::min(text.find_first_of(kWhiteSpace, at), text.size()));
  }
  return words;
}

}  // namespace tessera
