#include "tessera/value.hpp"

#include <fmt/format.h>

#include <cmath>

#include "tessera/error.hpp"
#include "tessera/schema.hpp"
#include "tessera/utf8.hpp"

namespace tessera {
namespace {

std::string basic_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default: {
        if (is_control(c)) {
          out += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
      }
    }
  }
  return out + '"';
}

std::string float_text(double value) {
  std::string out = fmt::format("{}", value);  // the shortest that reads back
  // Without a point or an exponent TOML would read an integer.
  if (std::isfinite(value) && out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

struct Text {
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(i64 v) const { return fmt::format("{}", v); }
  std::string operator()(double v) const { return float_text(v); }
  std::string operator()(const std::string& v) const { return basic_string(v); }
  std::string operator()(const Value::Array& v) const {
    std::string out = "[";
    for (const Value& element : v) {
      if (out.size() > 1) out += ", ";
      out += element.text();
    }
    return out + ']';
  }
};

}  // namespace

Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;

std::string_view Value::type_name() const {
  static constexpr std::string_view kNames[] = {"boolean", "integer", "float", "string", "array"};
  return kNames[data.index()];
}

std::string Value::text() const { return std::visit(Text{}, data); }

ConfigNode::~ConfigNode() = default;

std::string join_path(std::string_view table, std::string_view key) {
  if (table.empty()) return std::string(key);
  return key.empty() ? std::string(table) : fmt::format("{}.{}", table, key);
}

Value::Array detail::array_of(const Value& value) {
  const auto* array = std::get_if<Value::Array>(&value.data);
  require(array != nullptr, "expected an array, got {}", value.text());
  return *array;
}

}  // namespace tessera
