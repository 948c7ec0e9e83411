#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tessera/io/json_lines.hpp"

namespace tessera {

/// White space between words.
inline constexpr std::string_view kWhiteSpace = " \t\n\r\f\v";

/// Calls take(object, "file:line") for each line of a JSONL file; blank lines are passed over.
/// Throws ConfigError with file and line for what is no JSON object.
void for_each_object(
    const DataFile& file,
    const std::function<void(const nlohmann::json& object, const std::string& where)>& take);
/// Calls take(text, where) for each document: the lines' "text" of a file that ends in .jsonl, the
/// whole of any other. Throws ConfigError where there is none.
void for_each_document(
    const DataFile& file,
    const std::function<void(const std::string& text, const std::string& where)>& take);
/// Parts of a text between white space.
long long count_words(std::string_view text);

}  // namespace tessera
