#include "kernel/config/toml.hpp"

#include <pthread.h>
#include <toml++/toml.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <tuple>
#include <utility>

#include "kernel/config/source.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

// toml++ makes and frees nested tables by recursion, and each dot of a key is a table; their depth
// can be checked only once they are made. So a text with many dots is read on a thread whose stack
// is large enough for all of them; what it does not use costs nothing.
template <class F>
auto with_stack_for(std::string_view text, F&& read) -> decltype(read()) {
  constexpr i64 kDots = 5'000, kBytesOfADot = 1'500;  // 120 are used; 700 with sanitizers
  const i64 dots = std::ranges::count(text, '.');
  if (dots <= kDots) return read();
  struct Call {
    F& read;
    std::optional<decltype(read())> result;
    std::exception_ptr error;
  } call{read, {}, nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, static_cast<std::size_t>((dots + kDots) * kBytesOfADot));
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    auto& call = *static_cast<Call*>(argument);
    try {
      call.result.emplace(call.read());
    } catch (...) {
      call.error = std::current_exception();
    }
    return nullptr;
  };
  const int failed = pthread_create(&thread, &attributes, run, &call);
  pthread_attr_destroy(&attributes);
  require(failed == 0, "no memory to read a configuration with {} dots", dots);
  pthread_join(thread, nullptr);
  if (call.error) std::rethrow_exception(call.error);
  return std::move(*call.result);
}

bool is_too_deep(const toml::table& table, int depth) {
  return depth > kDeepest || std::ranges::any_of(table, [&](const auto& entry) {
           const toml::table* inner = entry.second.as_table();
           return inner != nullptr && is_too_deep(*inner, depth + 1);
         });
}

class Flattener {
 public:
  Flattener(const Origin& where,
            std::vector<std::string> lines,
            TableArrays arrays = TableArrays::refused)
      : where_(where), lines_(std::move(lines)), arrays_(arrays) {}

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
      if (std::ranges::count(path, '.') >= kDeepest) {
        reject(at, fmt::format("tables are nested more than {} deep", kDeepest));
      }
      add(node, join_path(path, key.str()), at);
    }
  }

  void add(const toml::node& node, const std::string& path, const Origin& key) {
    const toml::array* array = node.as_array();
    if (const toml::table* table = node.as_table()) {
      count_table(key);
      items_.push_back({path, std::nullopt, key, key});
      add_table(*table, path);
    } else if (arrays_ == TableArrays::numbered && array != nullptr && is_of_tables(*array)) {
      count_table(key);
      items_.push_back({path, std::nullopt, key, key});
      int number = 0;
      for (const toml::node& element : *array) {
        add(element, fmt::format("{}.{}", path, ++number), origin(element.source()));
      }
    } else {
      const Origin at = origin(node.source());
      items_.push_back({path, value_of(node, at), key, at});
    }
  }

  void count_table(const Origin& key) {
    if (++tables_ <= kMostTables) return;
    reject(key,
           fmt::format("more than {} tables; put keys that belong together into one table",
                       kMostTables));
  }

  static bool is_of_tables(const toml::array& array) {
    return !array.empty() && std::ranges::all_of(array, [](const auto& e) { return e.is_table(); });
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
  TableArrays arrays_;
  std::vector<TomlItem> items_;
  i64 tables_ = 0;
};

}  // namespace

bool is_bare_key(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

std::vector<TomlItem> parse_toml(const std::string& text, const Origin& where, TableArrays arrays) {
  return with_stack_for(text, [&] {
    Flattener flattener(where, split_lines(text), arrays);
    try {
      return flattener.flatten(toml::parse(text));
    } catch (const toml::parse_error& error) {
      flattener.reject(flattener.origin(error.source()), error.description());
    }
  });
}

std::optional<std::vector<TomlItem>> parse_toml_value(const std::string& text,
                                                      const Origin& where) {
  using Items = std::optional<std::vector<TomlItem>>;
  return with_stack_for(text, [&]() -> Items {
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
    if (is_too_deep(table, 0)) return std::nullopt;
    Items items = Flattener(where, {}).flatten(table);
    for (TomlItem& item : *items) {
      item.path = item.path == "v" ? "" : item.path.substr(2);
      item.key = item.at = where;
    }
    return items;
  });
}

}  // namespace tessera
