#include "kernel/config/component_tables.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/config/path_value.hpp"
#include "tessera/error.hpp"
#include "tessera/io/suggest.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

std::string key_label(const std::string& table, const std::string& key) {
  return table.empty() ? key : fmt::format("[{}] {}", table, key);
}

}  // namespace

void TableChecker::problem(const Origin& at, const std::string& text) {
  const std::string where = at.kind == Origin::initial ? "" : at.text() + ": ";
  problems_.push_back({at, where + text + config_.excerpt_at(at)});
}

void TableChecker::finish() const {
  if (problems_.empty()) return;
  std::vector<Problem> sorted = problems_;
  std::ranges::stable_sort(
      sorted, {}, [](const Problem& one) { return std::pair(one.at.layer, one.at.line); });
  Error(report(sorted), ErrorKind::configuration).add(catalog_.short_of()).raise();
}

void TableChecker::check(const std::string& table,
                         const std::vector<FieldSpec>& fields,
                         const std::vector<std::string>& others) {
  if (const Entry* written = config_.tree().find(table)) tree_->put(table, *written);
  for (const FieldSpec& spec : fields) check_field(table, spec);
  std::vector<std::string> known = others;
  for (const FieldSpec& spec : fields) known.push_back(spec.name);
  for (const std::string& key : config_.tree().children(table)) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const auto near = nearest(key, known);
    problem(config_.tree().find(join_path(table, key))->key,
            fmt::format("{}unknown key \"{}\"{}",
                        table.empty() ? "" : fmt::format("[{}] ", table),
                        key,
                        near ? fmt::format(": did you mean \"{}\"?", *near)
                             : fmt::format("; known are {}", fmt::join(known, ", "))));
  }
}

void TableChecker::check_field(const std::string& table, const FieldSpec& spec) {
  const std::string path = join_path(table, spec.name);
  const Entry* written = config_.tree().find(path);
  if (spec.type == FieldType::component) {
    if (written == nullptr && spec.initial) {
      Entry type;
      type.value = spec.initial;
      tree_->put(join_path(path, "type"), std::move(type));
      return;
    }
    check_component(path, spec.component_kind);
    return;
  }
  require(spec.type != FieldType::tables && spec.type != FieldType::variants && !spec.given,
          "{}: such a key is for components of a run",
          key_label(table, spec.name));
  Entry entry;
  if (written != nullptr) {
    entry = *written;
    if (!written->value) {
      problem(written->key,
              fmt::format(
                  "{} is not a table: expected {}", key_label(table, spec.name), spec.type_text()));
      return;
    }
    try {
      const Value value = spec.checked(written_value(spec, entry));
      entry.value = spec.is_path ? path_value(config_, spec, value, entry.at) : value;
    } catch (const ConfigError& error) {
      problem(entry.at, fmt::format("{}: {}", key_label(table, spec.name), error.what()));
      return;
    }
  } else if (spec.initial) {
    entry.value = spec.initial;
  } else {
    const Entry* around = config_.tree().find(table);
    problem(around != nullptr ? around->key : Origin(),
            fmt::format("{} is missing: {}; expected {}",
                        key_label(table, spec.name),
                        spec.doc,
                        spec.type_text()));
    return;
  }
  entry.is_path = spec.is_path;
  tree_->put(path, std::move(entry));
}

std::string TableChecker::check_component(const std::string& table, std::string_view kind) {
  const Entry* written = config_.tree().find(table);
  const Entry* type = config_.tree().find(join_path(table, "type"));
  const auto* text =
      type != nullptr && type->value ? std::get_if<std::string>(&type->value->data) : nullptr;
  if (text == nullptr) {
    const Origin at = type != nullptr ? type->at : written != nullptr ? written->key : Origin();
    problem(at, fmt::format("{} needs type = the name of a {}", table, kind));
    return "";
  }
  const ComponentInfo* info = catalog_.find(kind, *text);
  if (info == nullptr) {
    std::vector<std::string> names;
    for (const ComponentInfo* one : catalog_.of_kind(kind)) names.push_back(one->type);
    const auto near = nearest(*text, names);
    problem(type->at,
            fmt::format("[{}] type = {}: no {} of that name{}; known are {}{}",
                        table,
                        quote(*text),
                        kind,
                        near ? fmt::format("; did you mean \"{}\"?", *near) : "",
                        fmt::join(names, ", "),
                        catalog_.not_loaded()));
    return "";
  }
  check(table, info->fields, {"type"});
  tree_->put(join_path(table, "type"), *type);
  return *text;
}

}  // namespace tessera
