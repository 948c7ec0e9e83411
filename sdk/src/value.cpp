#include "tessera/base/value.hpp"

#include <fmt/format.h>

#include <cmath>

#include "tessera/error.hpp"
#include "tessera/io/utf8.hpp"
#include "tessera/schema.hpp"

namespace tessera {
namespace {

// A character that a terminal would act on, as TOML escapes it. A byte that is no UTF-8 stays:
// TOML has no escape for it.
std::string escaped(std::string_view character) {
  switch (character[0]) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
  }
  const auto bits = [&](std::size_t i) { return static_cast<unsigned char>(character[i]) & 0x3FU; };
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1)
    return first < 0x80 ? fmt::format("\\u{:04X}", first) : std::string(character);
  const unsigned point = character.size() == 2 ? (first & 0x1FU) << 6 | bits(1)
                                               : (first & 0x0FU) << 12 | bits(1) << 6 | bits(2);
  return fmt::format("\\u{:04X}", point);
}

std::string basic_string(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = next_character(text.substr(at));
    if (acts_on_terminal(character)) {
      out += escaped(character);
    } else {
      if (character == "\"" || character == "\\") out += '\\';
      out += character;
    }
    at += character.size();
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
