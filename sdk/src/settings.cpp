#include <cstdint>
#include <nlohmann/json.hpp>

#include "tessera/claims.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

using JsonTree = nlohmann::json;
constexpr int kDeepestJson = 32;  // objects and arrays in each other

void check_depth(const std::string& file, int depth) {
  require(depth <= kDeepestJson,
          "{} is damaged: more than {} objects and arrays lie in each other",
          file,
          kDeepestJson);
}

Value value_of(const JsonTree& json, const std::string& file, int depth) {
  check_depth(file, depth);
  if (json.is_boolean()) return json.get<bool>();
  // What does not fit into 64 bits is a number of settings that are real.
  const bool fits = !json.is_number_unsigned() || json.get<u64>() <= static_cast<u64>(INT64_MAX);
  if (json.is_number_integer() && fits) return json.get<i64>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array()) return json.dump();  // an object of a list: no setting of a model
  Value::Array array;
  for (const JsonTree& element : json) array.push_back(value_of(element, file, depth + 1));
  return array;
}

void flatten(const JsonTree& json,
             const std::string& file,
             const std::string& prefix,
             int depth,
             Settings& out) {
  check_depth(file, depth);
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) {
      flatten(value, file, prefix + key + ".", depth + 1, out);
    } else if (!value.is_null()) {
      out[prefix + key] = value_of(value, file, depth + 1);
    }
  }
}

}  // namespace

Settings parse_settings(std::string_view json, const std::string& file) {
  const JsonTree tree = JsonTree::parse(json, nullptr, false);
  require(tree.is_object(), "{} is damaged: it holds no JSON object", file);
  Settings settings;
  flatten(tree, file, "", 1, settings);
  return settings;
}

}  // namespace tessera
