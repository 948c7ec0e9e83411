#pragma once
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/error.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// Objects and arrays may lie in each other so deeply, and no deeper, in a JSON text that is read.
inline constexpr int kDeepestJson = 32;
/// A JSON text that is read may have so many values: each takes some dozens of bytes.
inline constexpr i64 kMostJsonValues = 20'000'000;

namespace detail {

/// Checks what a JSON text holds against the bounds, in its order. The names are those that
/// nlohmann-json asks for.
template <class JsonTree>
class JsonBounds {
 public:
  bool null() { return value(); }
  bool boolean(bool) { return value(); }
  bool number_integer(typename JsonTree::number_integer_t) { return value(); }
  bool number_unsigned(typename JsonTree::number_unsigned_t) { return value(); }
  bool number_float(typename JsonTree::number_float_t, const typename JsonTree::string_t&) {
    return value();
  }
  bool string(typename JsonTree::string_t&) { return value(); }
  bool binary(typename JsonTree::binary_t&) { return value(); }
  bool key(typename JsonTree::string_t&) { return true; }
  bool start_object(std::size_t) { return open(); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const typename JsonTree::string_t&, const std::exception&) {
    return false;
  }

 private:
  bool value() {
    require(++values_ <= kMostJsonValues, "it has more than {} values", kMostJsonValues);
    return true;
  }
  bool open() {
    require(++depth_ <= kDeepestJson,
            "more than {} objects and arrays lie in each other",
            kDeepestJson);
    return value();
  }
  bool close() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  i64 values_ = 0;
};

}  // namespace detail

/// What a reader of JSON threw, without the library's own number of its errors.
TESSERA_API std::string json_reason(const std::exception& error);

/// Runs `read`. What it throws becomes a Failure that names the file: "a.json is damaged: why".
template <class Failure = Error, class F>
auto reading_file(std::string_view file, F&& read) {
  try {
    return read();
  } catch (const std::exception& error) {
    throw Failure(fmt::format("{} is damaged: {}", file, json_reason(error)));
  }
}

/// Reads JSON that somebody else wrote in `file`:
///
///     const auto json = parse_json<nlohmann::json>(text, "a.json");
///
/// JsonTree is a type of nlohmann-json, which the SDK does not include. Throws Failure naming the
/// file where the text is no JSON, is nested more deeply than `kDeepestJson` or has more than
/// `kMostJsonValues`. The bounds hold before a tree is made: copying, printing and freeing it take
/// stack for each level. The text is read twice, since the library's own callback takes time of the
/// square of what an object holds. Every reader of JSON goes through here; a lint looks for others.
template <class JsonTree, class Failure = Error>
JsonTree parse_json(std::string_view text, std::string_view file) {
  return reading_file<Failure>(file, [&]() -> JsonTree {
    detail::JsonBounds<JsonTree> bounds;
    JsonTree::sax_parse(text, &bounds);
    return JsonTree::parse(text);
  });
}

/// The same of a text that is an object.
template <class JsonTree, class Failure = Error>
JsonTree parse_json_object(std::string_view text, std::string_view file) {
  JsonTree json = parse_json<JsonTree, Failure>(text, file);
  if (json.is_object()) return json;
  throw Failure(
      fmt::format("{} is damaged: it is a JSON {} instead of an object", file, json.type_name()));
}

}  // namespace tessera
