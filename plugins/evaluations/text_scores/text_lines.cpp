#include "text_lines.hpp"

#include <algorithm>

#include "tessera/io/written.hpp"

namespace tessera {

using Json = nlohmann::json;

void for_each_object(
    const DataFile& file,
    const std::function<void(const Json& object, const std::string& where)>& take) {
  for_each_json_line<Json>(file, [&](const Json& object, i64 line) {
    take(object, fmt::format("{}:{}", written_path(file.path()), line));
  });
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
