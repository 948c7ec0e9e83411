#include "kernel/config/dump.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

namespace tessera {
namespace {

constexpr std::size_t kOriginColumn = 44;

struct Line {
  std::string path;
  const Entry* entry;
};

struct Table {
  std::string path;
  bool is_set = false;
  bool has_tables = false;
  std::vector<Line> lines;
};

/// Tables in the order of the sections, each before its sub-tables.
void collect(const ConfigTree& tree, const std::string& path, std::vector<Table>& out) {
  Table table{path, false, false, {}};
  std::vector<std::string> below;
  for (const std::string& name : tree.children(path)) {
    const std::string child = join_path(path, name);
    const Entry* entry = tree.find(child);
    if (entry->value) {
      table.lines.push_back({child, entry});
    } else {
      below.push_back(child);
    }
  }
  const Entry* self = tree.find(path);
  table.is_set = self != nullptr && self->is_set() && !self->inherited();
  table.has_tables = !below.empty();
  if (!path.empty()) out.push_back(std::move(table));
  for (const std::string& child : below) collect(tree, child, out);
}

std::vector<Table> tables_of(const ConfigTree& tree) {
  std::vector<Table> out;
  collect(tree, "", out);
  return out;
}

/// Is it a key of the kernel itself, and no component's?
bool is_kernels(std::string_view path) {
  const std::string_view table = parent_of(path), key = last_of(path);
  return std::ranges::any_of(root_sections(), [&](const RootSection& section) {
    if (section.name != table) return false;
    return (key == "type" && !section.kind.empty()) ||
           std::ranges::find(section.fields, key, &FieldSpec::name) != section.fields.end();
  });
}

std::string value_text(const Line& line) {
  const Value& value = *line.entry->value;
  return last_of(line.path) == "type" && value == Value("") ? "\"none\"" : value.text();
}

bool is_derived(const Line& line) { return !line.entry->from.empty(); }

}  // namespace

std::vector<Difference> differences(const ConfigTree& left, const ConfigTree& right) {
  std::map<std::string, Line> there;
  for (const Table& table : tables_of(right)) {
    for (const Line& line : table.lines) there.emplace(line.path, line);
  }
  std::vector<Difference> out;
  for (const Table& table : tables_of(left)) {
    for (const Line& line : table.lines) {
      const std::string text = value_text(line);
      const auto other = there.find(line.path);
      if (other == there.end()) {
        out.push_back({line.path, text, std::nullopt, is_derived(line), line.entry->is_path});
        continue;
      }
      std::string now = value_text(other->second);
      if (now != text) {
        out.push_back({line.path,
                       text,
                       std::move(now),
                       is_derived(line) && is_derived(other->second),
                       line.entry->is_path || other->second.entry->is_path,
                       other->second.entry->from});
      }
      there.erase(other);
    }
  }
  for (const Table& table : tables_of(right)) {
    for (const Line& line : table.lines) {
      if (!there.contains(line.path)) continue;
      out.push_back(
          {line.path, std::nullopt, value_text(line), is_derived(line), line.entry->is_path});
    }
  }
  return out;
}

std::string dump(const Resolved& resolved) {
  std::string out = "schema = 1\n";
  for (const Table& table : tables_of(*resolved.tree)) {
    std::string body;
    bool active = table.is_set;
    for (const Line& line : table.lines) {
      const Entry& entry = *line.entry;
      const bool written = entry.is_set() && !entry.inherited();
      // A key that follows from another one must go on following when the dump is loaded with
      // that one changed: a run's checkpoints are in its own folder.
      const bool active_line = written || (is_kernels(line.path) && !is_derived(line));
      active = active || active_line;
      body += fmt::format(
          "{:<{}}  # {}\n",
          fmt::format("{}{} = {}", active_line ? "" : "# ", last_of(line.path), value_text(line)),
          kOriginColumn,
          (entry.from.empty() ? entry.at.text() : "from " + entry.from) +
              (entry.note.empty() ? "" : ", " + entry.note));
    }
    if (body.empty() && (!active || table.has_tables)) continue;
    out += fmt::format("\n{}[{}]\n{}", active ? "" : "# ", table.path, body);
  }
  return out;
}

std::string values_text(const Resolved& resolved) {
  std::string out;
  for (const Table& table : tables_of(*resolved.tree)) {
    for (const Line& line : table.lines) {
      out += fmt::format("{} = {}\n", line.path, value_text(line));
    }
  }
  return out;
}

std::vector<std::string> diff(const Resolved& left, const Resolved& right) {
  std::vector<std::string> out;
  for (const Difference& d : differences(left, right)) {
    if (d.derived) continue;  // it follows from a key that differs
    if (d.left) out.push_back(fmt::format("- {} = {}", d.path, *d.left));
    if (d.right) out.push_back(fmt::format("+ {} = {}", d.path, *d.right));
  }
  return out;
}

std::vector<std::string> changes(const std::vector<Difference>& differences) {
  std::vector<std::string> out, derived;
  for (const Difference& d : differences) {
    (d.derived ? derived : out)
        .push_back(fmt::format(
            "{}: {}, now {}", d.path, d.left.value_or("not there"), d.right.value_or("not there")));
  }
  return out.empty() ? derived : out;
}

}  // namespace tessera
