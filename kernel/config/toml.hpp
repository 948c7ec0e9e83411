#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernel/config/tree.hpp"

namespace tessera {

/// Tables nested more deeply than this are refused.
inline constexpr int kDeepest = 256;
/// A text with more tables is refused, and so is a configuration whose files have more together.
/// Each takes some kilobytes and may be two characters of a key: "a.a.a.a = 1".
inline constexpr i64 kMostTables = 20'000;

/// A key of a TOML text: a value, or a table (which may be empty). Origins have line, column and
/// length, and the name and layer of the call.
struct TomlItem {
  std::string path;
  std::optional<Value> value;
  Origin key, at;
};

/// What becomes of arrays of tables: they are errors, or tables of the names "1", "2", ….
enum class TableArrays : u8 { refused, numbered };

/// The keys of a text in the order of writing, tables before what is in them. Throws ConfigError
/// with position and source line for what is no TOML, and for what configuration does not use:
/// dates, quoted keys that are no bare keys. `where` gives kind, layer and name.
std::vector<TomlItem> parse_toml(const std::string& text,
                                 const Origin& where,
                                 TableArrays arrays = TableArrays::refused);

/// What `text` is as one TOML value: a single item with an empty path, or the items of an inline
/// table; nothing when it is not the text of one value.
std::optional<std::vector<TomlItem>> parse_toml_value(const std::string& text, const Origin& where);

/// May it be a key of configuration? Letters, digits, "_" and "-".
bool is_bare_key(std::string_view key);

}  // namespace tessera
