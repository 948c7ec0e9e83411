#include "kernel/config/path_value.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace tessera {
namespace {

// A path key with the word "<number>" takes numbers beside paths, as weights of files.
bool is_number(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_word(const FieldSpec& spec, const std::string& text) {
  if (spec.allows_auto && text == spec.automatic) return true;
  return std::ranges::any_of(spec.path_words, [&](const std::string& word) {
    return word == text || (word == "<number>" && is_number(text));
  });
}

}  // namespace

Value written_value(const FieldSpec& spec, const Entry& entry) {
  const bool string = std::holds_alternative<std::string>(entry.value->data);
  const bool quoted = spec.type == FieldType::string && !string && !entry.raw.empty();
  return quoted ? Value(entry.raw) : *entry.value;
}

Value path_value(const Config& config,
                 const FieldSpec& spec,
                 const Value& value,
                 const Origin& at) {
  if (const auto* array = std::get_if<Value::Array>(&value.data)) {
    Value::Array out;
    for (const Value& each : *array) out.push_back(path_value(config, spec, each, at));
    return out;
  }
  const std::string& text = std::get<std::string>(value.data);
  if (is_word(spec, text) || text.empty() || text.find("://") != std::string::npos) return value;
  return Value(config.resolve_path(text, at).string());
}

}  // namespace tessera
