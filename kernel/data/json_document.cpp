#include "kernel/data/json_document.hpp"

#include <simdjson.h>

#include <cstdlib>
#include <optional>

#include "kernel/data/text_check.hpp"
#include "tessera/error.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

namespace dom = simdjson::dom;

std::string_view type_text(dom::element_type type) {
  switch (type) {
    case dom::element_type::ARRAY:
      return "an array";
    case dom::element_type::OBJECT:
      return "an object";
    case dom::element_type::STRING:
      return "a string";
    case dom::element_type::BOOL:
      return "a boolean";
    case dom::element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

// The value of "\uXXXX" at the beginning of `text`.
std::optional<unsigned> escaped(std::string_view text) {
  if (text.size() < 6 || text[0] != '\\' || text[1] != 'u') return std::nullopt;
  unsigned value = 0;
  for (const char c : text.substr(2, 4)) {
    const unsigned digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a') + 10
                           : c >= 'A' && c <= 'F' ? static_cast<unsigned>(c - 'A') + 10
                                                  : 16;
    if (digit == 16) return std::nullopt;
    value = value * 16 + digit;
  }
  return value;
}

bool is_first_half(unsigned unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_second_half(unsigned unit) { return unit >= 0xDC00 && unit < 0xE000; }

}  // namespace

struct JsonDocuments::State {
  JsonFields fields;
  dom::parser parser;
  std::string id;
};

JsonDocuments::JsonDocuments(JsonFields fields) : state_(std::make_unique<State>()) {
  static_assert(kPadding >= simdjson::SIMDJSON_PADDING);
  state_->fields = std::move(fields);
}
JsonDocuments::~JsonDocuments() = default;

JsonDocuments::Read JsonDocuments::read(std::string_view line, const std::string& where) {
  State& s = *state_;
  if (const auto bad = first_no_utf8(line)) {
    fail(
        "{}: byte {} of the line is no UTF-8; a build mends such text whose first stage is "
        "\"clean\"",
        where,
        *bad + 1);
  }
  const std::size_t size = std::max<std::size_t>(line.size(), 1);
  if (s.parser.capacity() < size || s.parser.max_depth() != kDeepestJson) {
    require(s.parser.allocate(size, kDeepestJson) == simdjson::SUCCESS,
            "{}: no memory for a line of {} bytes",
            where,
            line.size());
  }
  dom::element root;
  if (const auto error = s.parser.parse(line.data(), line.size(), false).get(root)) {
    fail("{}: no JSON: {}", where, simdjson::error_message(error));
  }
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    fail("{}: {} where an object was expected", where, type_text(root.type()));
  }
  Read out;
  bool has_text = false, has_id = false;
  for (const auto [key, value] : object) {
    const bool is_text = key == s.fields.text_field, is_id = key == s.fields.id_field;
    if ((is_text && has_text) || (is_id && has_id)) {
      fail("{}: two fields {}", where, quote(key));
    }
    if (is_text) {
      has_text = true;
      if (value.get(out.text) != simdjson::SUCCESS) {
        fail("{}: field {} is {} where a string was expected",
             where,
             quote(key),
             type_text(value.type()));
      }
    }
    if (is_id) {
      has_id = true;
      std::string_view text;
      if (value.get(text) == simdjson::SUCCESS) {
        s.id = text;
      } else if (value.is_int64() || value.is_uint64()) {
        s.id = simdjson::minify(value);
      } else {
        fail("{}: field {} is {} where a string or an integer was expected",
             where,
             quote(key),
             type_text(value.type()));
      }
      out.id = s.id;
    }
  }
  if (!has_text) fail("{}: no field {}", where, quote(s.fields.text_field));
  return out;
}

std::string mended_json(std::string_view line) {
  const std::string whole = as_utf8(line);
  std::string out;
  out.reserve(whole.size());
  const std::string_view text = whole;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] != '\\') {
      out += text[at++];
      continue;
    }
    const auto unit = escaped(text.substr(at));
    if (!unit || (!is_first_half(*unit) && !is_second_half(*unit))) {
      const std::size_t taken = std::min<std::size_t>(unit ? 6 : 2, text.size() - at);
      out += text.substr(at, taken);
      at += taken;
      continue;
    }
    const auto next = escaped(text.substr(at + 6));
    if (is_first_half(*unit) && next && is_second_half(*next)) {
      out += text.substr(at, 12);
      at += 12;
    } else {
      out += "\\ufffd";
      at += 6;
    }
  }
  return out;
}

}  // namespace tessera
