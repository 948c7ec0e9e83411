#include "kernel/config/toml.hpp"

#include <toml++/toml.h>
#include <algorithm>
#include <tuple>

#include "kernel/config/source.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

// Is there a header or a key in this line, of an inline table perhaps, that is nested so deeply
// that the parser, and whoever walks what it makes, would run out of stack?
bool is_too_deep(std::string_view line) {
  i64 dots = 0;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == '\\' && quote == '"') ++i;
      if (c == quote) quote = 0;
    } else if (c == '#') {
      break;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '.') {
      if (++dots >= kDeepest) return true;
    } else if (c == '=' || c == ',' || c == '{' || c == '[') {
      dots = 0;
    }
  }
  return false;
}

class Flattener {
 public:
  Flattener(const Origin& where, std::vector<std::string> lines)
      : where_(where), lines_(std::move(lines)) {}

  std::vector<TomlItem> flatten(const toml::table& root) {
    add_table(root, "");
    // Tables of toml++ are sorted by name.
    std::ranges::stable_sort(items_, {}, [](const TomlItem& item) {
      return std::tuple(item.key.line, item.key.column);
    });
    return std::move(items_);
  }

  Origin origin(const toml::source_region& region) const {
    Origin out = where_;
    out.line = static_cast<int>(region.begin.line);
    out.column = static_cast<int>(region.begin.column);
    const bool one_line = region.end.line == region.begin.line;
    const auto size = lines_.size();
    const auto last = region.begin.line <= size && region.begin.line > 0
                          ? static_cast<int>(lines_[region.begin.line - 1].size()) + 1
                          : out.column + 1;
    out.length = (one_line ? static_cast<int>(region.end.column) : last) - out.column;
    return out;
  }

  void require_shallow() const {
    const auto deep = std::ranges::find_if(lines_, is_too_deep);
    if (deep == lines_.end()) return;
    Origin at = where_;
    at.line = static_cast<int>(deep - lines_.begin()) + 1;
    at.column = at.length = 1;
    reject(at, fmt::format("tables are nested more than {} deep", kDeepest));
  }

  [[noreturn]] void reject(const Origin& at, std::string_view why) const {
    fail_config("{}: {}{}", at.text(), why, excerpt(lines_, at));
  }

 private:
  void add_table(const toml::table& table, const std::string& path) {
    for (const auto& [key, node] : table) {
      const Origin at = origin(key.source());
      if (!is_bare_key(key.str())) {
        reject(at, "keys are made of letters, digits, \"_\" and \"-\"");
      }
      add(node, join_path(path, key.str()), at);
    }
  }

  void add(const toml::node& node, const std::string& path, const Origin& key) {
    if (const toml::table* table = node.as_table()) {
      items_.push_back({path, std::nullopt, key, key});
      add_table(*table, path);
    } else {
      const Origin at = origin(node.source());
      items_.push_back({path, value_of(node, at), key, at});
    }
  }

  Value value_of(const toml::node& node, const Origin& at) const {
    if (const auto* v = node.as_boolean()) return v->get();
    if (const auto* v = node.as_integer()) return static_cast<i64>(v->get());
    if (const auto* v = node.as_floating_point()) return v->get();
    if (const auto* v = node.as_string()) return v->get();
    const toml::array* array = node.as_array();
    if (array == nullptr) reject(at, "dates and times are not used here; write a string");
    Value::Array out;
    for (const toml::node& element : *array) {
      if (element.is_table()) {
        reject(at, "arrays of tables are not used here; give each table a name: [table.name]");
      }
      out.push_back(value_of(element, origin(element.source())));
    }
    return out;
  }

  Origin where_;
  std::vector<std::string> lines_;
  std::vector<TomlItem> items_;
};

}  // namespace

bool is_bare_key(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

std::vector<TomlItem> parse_toml(const std::string& text, const Origin& where) {
  Flattener flattener(where, split_lines(text));
  flattener.require_shallow();
  try {
    return flattener.flatten(toml::parse(text));
  } catch (const toml::parse_error& error) {
    flattener.reject(flattener.origin(error.source()), error.description());
  }
}

std::optional<std::vector<TomlItem>> parse_toml_value(const std::string& text,
                                                      const Origin& where) {
  if (std::ranges::any_of(split_lines(text), is_too_deep)) return std::nullopt;
  toml::table table;
  try {
    table = toml::parse("v = " + text);
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
  const toml::node* value = table.get("v");
  if (table.size() != 1 || value->is_date() || value->is_time() || value->is_date_time()) {
    return std::nullopt;
  }
  auto items = Flattener(where, {}).flatten(table);
  for (TomlItem& item : items) {
    item.path = item.path == "v" ? "" : item.path.substr(2);
    item.key = item.at = where;
  }
  return items;
}

}  // namespace tessera
