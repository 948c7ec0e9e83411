// The part of Checker that deals with single values: what is set, defaults, `from`.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "kernel/config/checker.hpp"
#include "kernel/config/path_value.hpp"
#include "tessera/io/utf8.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// Whether the text, or one of the texts, has a character that would break a message's line.
bool holds_control(const Value& value) {
  if (const auto* array = std::get_if<Value::Array>(&value.data)) {
    return std::ranges::any_of(*array, holds_control);
  }
  const auto* text = std::get_if<std::string>(&value.data);
  return text != nullptr && std::ranges::any_of(*text, is_control);
}

bool is_auto(const Value& value) { return value == Value("auto"); }

}  // namespace

void Checker::put_default(const std::string& path, const FieldSpec& spec, const Value& value) {
  if (tree.find(path) != nullptr) return;
  Entry entry;
  entry.value = value;
  entry.structural = spec.structural;
  entry.is_path = spec.is_path;
  tree.put(path, std::move(entry));
}

void Checker::check_value(const std::string& path, const FieldSpec& spec, const Entry& entry) {
  if (!entry.value) {
    problem(path,
            entry.key,
            fmt::format("{} is not a table: expected {}", label(path), spec.type_text()));
    return;
  }
  Value value = written_value(spec, entry);
  Entry kept = entry;
  try {
    value = spec.checked(value);
    kept.value = spec.is_path ? path_value(config_, spec, value, entry.at) : value;
  } catch (const ConfigError& error) {
    problem(path, entry.at, fmt::format("{}: {}", label(path), error.what()));
    return;
  }
  if (spec.is_path) check_line(path, value, entry.at);
  kept.is_path = spec.is_path;
  kept.structural = spec.structural;
  tree.put(path, std::move(kept));
}

void Checker::check_missing(const std::string& path, const FieldSpec& spec) {
  if (spec.given) return;
  if (!spec.from.empty()) {
    pending_[path] = &spec;
    taken_from_[path] = spec.from;
    put_default(path, spec, Value());  // holds the key's place among its neighbours
  } else if (spec.initial) {
    put_default(path, spec, *spec.initial);
  } else {
    missing(std::string(parent_of(path)),
            spec.name,
            fmt::format("{}; expected {}", spec.doc, spec.type_text()));
  }
}

void Checker::missing(const std::string& table, const std::string& key, const std::string& what) {
  const Entry* written = config_.tree().find(table);
  const Origin at = written != nullptr ? written->key : Origin();
  problem(table, at, fmt::format("[{}] \"{}\" is missing: {}", table, key, what));
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
    problem(path,
            Origin(),
            fmt::format("{} is taken from {}, which is taken from it", label(path), spec.from));
    return nullptr;
  }
  const Value* there = settle(spec.from);
  pending_.erase(path);
  settling_.erase(path);
  Entry entry;
  entry.structural = spec.structural;
  entry.is_path = spec.is_path;
  if (there != nullptr) {
    try {
      const Origin at = tree.find(spec.from)->at;
      const Value value = spec.checked(*there);
      const bool written = at.layer >= 0;
      entry.value = spec.is_path && written ? path_value(config_, spec, value, at) : value;
      entry.from = spec.from;
    } catch (const ConfigError& error) {
      // "auto" there is settled while building, where the parent may give the value.
      if (!is_auto(*there)) {
        const Origin at = tree.find(spec.from)->at;
        problem(path, at, fmt::format("{}, from {}: {}", label(path), spec.from, error.what()));
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
  problem(path, at, fmt::format("{}: {} has control characters", label(path), value.text()));
}

// The name is in log lines, temporary names and, by default, the run's folder "runs/<name>".
void Checker::check_run_name(const std::string& name, bool names_folder) {
  const Entry* entry = tree.find("run.name");
  if (entry == nullptr) return;  // it has a problem
  if (name.empty()) {
    problem(
        "run.name", entry->at, "[run] name is empty: give one, or leave the key out for \"run\"");
    return;
  }
  const fs::path folder = fs::path("runs/" + name).lexically_normal();
  auto part = folder.begin();
  const bool within = *part == "runs" && ++part != folder.end() && !part->empty();
  if (!names_folder || within) return;
  problem("run.name",
          entry->at,
          fmt::format("[run] name = {} would make {} the run's folder, which is not one within "
                      "\"runs\": give another name, or the folder as run.out",
                      Value(name).text(),
                      Value(folder.string()).text()));
}

void Checker::complete_paths() {
  const auto text = [&](const char* path) {
    const Entry* entry = tree.find(path);
    const auto* found = entry != nullptr ? std::get_if<std::string>(&entry->value->data) : nullptr;
    return found == nullptr ? std::string() : *found;
  };
  const auto complete =
      [&](const char* path, const std::string& when_empty, const std::string& from) {
        const Entry* entry = tree.find(path);
        if (entry == nullptr || !text(path).empty()) return;  // without an entry it has a problem
        Entry out = *entry;
        out.from = taken_from_[path] = from;
        out.value = Value(config_.resolve_path(when_empty, entry->at).string());
        tree.put(path, std::move(out));
      };
  if (const Entry* entry = tree.find("run.name")) {
    check_line("run.name", Value(text("run.name")), entry->at);
  }
  check_run_name(text("run.name"), text("run.out").empty());
  complete("run.out", "runs/" + text("run.name"), "run.name");
  complete("checkpoint.out", text("run.out") + "/checkpoints", "run.out");
}

}  // namespace tessera
