// The part of Checker that deals with single values: what is set, defaults, `from`.
#include <fmt/format.h>

#include <algorithm>

#include "kernel/config/checker.hpp"
#include "tessera/utf8.hpp"

namespace tessera {
namespace {

/// Keys that hold paths in the configuration's own file tree, by their names (README).
bool names_path(const FieldSpec& spec) {
  const bool strings = spec.type == FieldType::string ||
                       (spec.type == FieldType::array && spec.element == FieldType::string);
  const std::string_view name = spec.name;
  return strings &&
         (name == "path" || name == "paths" || name.ends_with("_path") || name.ends_with("_paths"));
}

// Whether the text, or one of the texts, has a character that would break a message's line.
bool holds_control(const Value& value) {
  if (const auto* array = std::get_if<Value::Array>(&value.data)) {
    return std::ranges::any_of(*array, holds_control);
  }
  const auto* text = std::get_if<std::string>(&value.data);
  return text != nullptr && std::ranges::any_of(*text, is_control);
}

bool is_auto(const Value& value) { return value == Value("auto"); }

Value absolute(const Config& config, const Value& value, const Origin& at) {
  if (const auto* array = std::get_if<Value::Array>(&value.data)) {
    Value::Array out;
    for (const Value& each : *array) out.push_back(absolute(config, each, at));
    return out;
  }
  const std::string& text = std::get<std::string>(value.data);
  if (text.empty() || is_auto(value) || text.find("://") != std::string::npos) return value;
  return Value(config.resolve_path(text, at).string());
}

}  // namespace

void Checker::put_default(const std::string& path, const Value& value) {
  if (tree.find(path) != nullptr) return;
  Entry entry;
  entry.value = value;
  tree.put(path, std::move(entry));
}

void Checker::check_value(const std::string& path, const FieldSpec& spec, const Entry& entry) {
  if (!entry.value) {
    problem(entry.key, fmt::format("{} is no table: expected {}", label(path), spec.type_text()));
    return;
  }
  Value value = *entry.value;
  // --set run.name=42: without quotes from a shell, the schema says that it is a string.
  const bool string = std::holds_alternative<std::string>(value.data);
  if (spec.type == FieldType::string && !string && !entry.raw.empty()) value = Value(entry.raw);
  try {
    value = spec.checked(value);
  } catch (const ConfigError& error) {
    problem(entry.at, fmt::format("{}: {}", label(path), error.what()));
    return;
  }
  if (names_path(spec)) check_line(path, value, entry.at);
  Entry kept = entry;
  kept.value = names_path(spec) ? absolute(config_, value, entry.at) : value;
  tree.put(path, std::move(kept));
}

void Checker::check_missing(const std::string& path, const FieldSpec& spec) {
  if (spec.given) return;
  if (!spec.from.empty()) {
    pending_[path] = &spec;
    put_default(path, Value());  // holds the key's place among its neighbours
  } else if (spec.initial) {
    put_default(path, *spec.initial);
  } else {
    missing(std::string(parent_of(path)),
            spec.name,
            fmt::format("{}; expected {}", spec.doc, spec.type_text()));
  }
}

void Checker::missing(const std::string& table, const std::string& key, const std::string& what) {
  const Entry* written = config_.tree().find(table);
  const Origin at = written != nullptr ? written->key : Origin();
  problem(at, fmt::format("[{}] \"{}\" is missing: {}", table, key, what));
}

void Checker::settle_from() {
  while (!pending_.empty()) {
    const std::string path = pending_.begin()->first;
    settle(path);
  }
}

const Value* Checker::settle(const std::string& path) {
  const auto found = pending_.find(path);
  if (found == pending_.end()) {
    const Entry* entry = tree.find(path);
    return entry != nullptr && entry->value ? &*entry->value : nullptr;
  }
  const FieldSpec& spec = *found->second;
  if (!settling_.insert(path).second) {
    problem(Origin(),
            fmt::format("{} is taken from {}, which is taken from it", label(path), spec.from));
    return nullptr;
  }
  const Value* there = settle(spec.from);
  pending_.erase(path);
  settling_.erase(path);
  Entry entry;
  if (there != nullptr) {
    try {
      entry.value = spec.checked(*there);
      entry.from = spec.from;
    } catch (const ConfigError& error) {
      // "auto" there is settled while building, where the parent may give the value.
      if (!is_auto(*there)) {
        const Origin at = tree.find(spec.from)->at;
        problem(at, fmt::format("{}, from {}: {}", label(path), spec.from, error.what()));
      }
    }
  } else if (spec.initial) {
    entry.value = spec.initial;
  } else {
    missing(std::string(parent_of(path)),
            spec.name,
            fmt::format("{}; expected {} here or at {}", spec.doc, spec.type_text(), spec.from));
  }
  if (!entry.value) {
    tree.erase(path);
    return nullptr;
  }
  return &*tree.put(path, std::move(entry)).value;
}

void Checker::check_line(const std::string& path, const Value& value, const Origin& at) {
  if (!holds_control(value)) return;
  problem(at, fmt::format("{}: {} has control characters", label(path), value.text()));
}

void Checker::complete_paths() {
  const auto text = [&](const char* path) {
    const Entry* entry = tree.find(path);
    const auto* found = entry != nullptr ? std::get_if<std::string>(&entry->value->data) : nullptr;
    return found == nullptr ? std::string() : *found;
  };
  const auto complete = [&](const char* path,
                            const std::string& when_empty,
                            const std::string& from = "") {
    const Entry* entry = tree.find(path);
    if (entry == nullptr) return;  // it has a problem
    Entry out = *entry;
    const std::string value = text(path);
    if (value.empty()) out.from = from;
    out.value = Value(config_.resolve_path(value.empty() ? when_empty : value, entry->at).string());
    tree.put(path, std::move(out));
  };
  for (const char* path :
       {"run.name", "run.out", "checkpoint.out", "checkpoint.resume", "checkpoint.init_from"}) {
    if (const Entry* entry = tree.find(path)) check_line(path, Value(text(path)), entry->at);
  }
  complete("run.out", "runs/" + text("run.name"), "run.name");
  complete("checkpoint.out", text("run.out") + "/checkpoints", "run.out");
  const std::string resume = text("checkpoint.resume");
  if (!resume.empty() && resume != "auto" && resume != "none") complete("checkpoint.resume", "");
  if (!text("checkpoint.init_from").empty()) complete("checkpoint.init_from", "");
}

}  // namespace tessera
