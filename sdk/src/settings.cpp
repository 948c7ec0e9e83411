#include <cstdint>
#include <nlohmann/json.hpp>

#include "tessera/io/claims.hpp"
#include "tessera/io/parse_json.hpp"

namespace tessera {

namespace {

using JsonTree = nlohmann::json;

Value value_of(const JsonTree& json) {
  if (json.is_boolean()) return json.get<bool>();
  // What does not fit into 64 bits is a number of settings that are real.
  const bool fits = !json.is_number_unsigned() || json.get<u64>() <= static_cast<u64>(INT64_MAX);
  if (json.is_number_integer() && fits) return json.get<i64>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array()) return json.dump();  // an object of a list: no setting of a model
  Value::Array array;
  for (const JsonTree& element : json) array.push_back(value_of(element));
  return array;
}

void flatten(const JsonTree& json, const std::string& prefix, Settings& out) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) {
      flatten(value, prefix + key + ".", out);
    } else if (!value.is_null()) {
      out[prefix + key] = value_of(value);
    }
  }
}

}  // namespace

Settings parse_settings(std::string_view json, const std::string& file) {
  Settings settings;
  flatten(parse_json_object<JsonTree>(json, file), "", settings);
  return settings;
}

}  // namespace tessera
