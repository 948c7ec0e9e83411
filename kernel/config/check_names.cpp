// The part of Checker that words errors about names: unknown keys and unknown components.
#include <fmt/format.h>

#include <algorithm>

#include "kernel/config/checker.hpp"
#include "tessera/io/suggest.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

std::string plural(std::string_view kind) {
  if (kind == "lr") return "lr schedules";
  if (kind == "graph") return "graph policies";
  if (kind == "rule") return "update rules";
  return fmt::format("{}s", kind);
}

// "a rule", "an optimizer", "an lr".
std::string a(std::string_view kind) {
  const bool vowel = std::string_view("aeiou").find(kind.front()) != std::string_view::npos;
  return fmt::format("{} {}", vowel || kind == "lr" ? "an" : "a", kind);
}

i64 keys_of_both(const KeyTable& a, const KeyTable& b) {
  return std::ranges::count_if(a.rows, [&](const KeyRow& row) {
    return std::ranges::find(b.rows, row.name, &KeyRow::name) != b.rows.end();
  });
}

// Can a configuration set it?
bool knows(const ComponentInfo& component, const std::string& key) {
  return std::ranges::any_of(component.fields,
                             [&](const FieldSpec& f) { return f.name == key && !f.given; });
}

// Empty where there is no place.
std::string belongs_to(std::vector<std::string> places) {
  constexpr std::size_t kShown = 3;
  if (places.empty()) return "";
  const std::size_t more = places.size() > kShown ? places.size() - kShown : 0;
  places.resize(places.size() - more);
  return fmt::format("it belongs to {}{}",
                     fmt::join(places, " or "),
                     more > 0 ? fmt::format(" or {} more", more) : "");
}

// Does a section have a table for each component of this kind, as [observers] has?
bool is_of_each(const std::string& kind) {
  return std::ranges::any_of(root_sections(),
                             [&](const RootSection& s) { return s.each && s.kind == kind; });
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

}  // namespace

void Checker::unknown_type(const Slot& slot, const std::string& type, const Entry* written) {
  std::vector<std::string> names, listed;
  for (const ComponentInfo* info : catalog_.of_kind(slot.kind)) {
    names.push_back(info->type);
    const std::string library = catalog_.library_of(slot.kind, info->type);
    listed.push_back(library.empty() ? info->type : fmt::format("{} ({})", info->type, library));
  }
  std::string text = fmt::format("[{}] type = {}{}: no {} plugin of that name",
                                 slot.path,
                                 quote(type),
                                 written == nullptr ? " (the default)" : "",
                                 slot.kind);
  const std::string other = other_slot(slot, type);
  if (const auto near = nearest(type, names)) {
    text += fmt::format("; did you mean \"{}\"?", *near);
  } else if (!other.empty()) {
    text += "; " + other;
  }
  const std::string details = fmt::format("\n  known {}: {}{}",
                                          plural(slot.kind),
                                          listed.empty() ? "none" : joined(listed),
                                          catalog_.not_loaded());
  problem(slot.path, written != nullptr ? written->at : Origin(), text, details);
}

const KeyNames& Checker::names() const {
  if (!names_) names_.emplace(key_tables(catalog_));
  return *names_;
}

std::string Checker::other_slot(const Slot& slot, const std::string& type) const {
  std::vector<KeyTable> tables = key_tables(catalog_);
  std::erase_if(tables, [&](const KeyTable& table) {
    return table.kind.empty() || table.kind == slot.kind || is_of_each(table.kind);
  });
  const auto inside = [&](const KeyTable& table) {
    return table.path.starts_with(slot.path + ".");
  };
  std::ranges::stable_partition(tables, inside);
  for (const KeyTable& first : tables) {
    std::vector<std::string> names;
    for (const ComponentInfo* of : catalog_.of_kind(first.kind)) names.push_back(of->type);
    // Any word is near some name of all that there are.
    const auto near = inside(first)                         ? nearest(type, names)
                      : std::ranges::count(names, type) > 0 ? std::optional(type)
                                                            : std::nullopt;
    if (!near) continue;
    const KeyTable& meant = *std::ranges::find_if(tables, [&](const KeyTable& table) {
      return table.kind == first.kind && table.type == *near;
    });
    // The place whose default has most of its keys: that of an MLP for a mixture of experts.
    const KeyTable& best = *std::ranges::max_element(tables, {}, [&](const KeyTable& table) {
      if (table.kind != first.kind) return i64{-1};
      return table.initial ? keys_of_both(table, meant) : 0;
    });
    return fmt::format(
        "\"{0}\" is {1}: write [{2}] type = \"{0}\"", *near, a(first.kind), best.path);
  }
  return "";
}

std::string Checker::path_key(const std::string& kind) const {
  for (const ComponentInfo* info : catalog_.of_kind(kind)) {
    const auto found = std::ranges::find(info->fields, true, &FieldSpec::is_path);
    if (found != info->fields.end()) return found->name;
  }
  return "";
}

void Checker::value_of_slot(const Slot& slot, const Entry& written) {
  const auto* type = std::get_if<std::string>(&written.value->data);
  std::string text = fmt::format("{} is the table of {}", label(slot.path), a(slot.kind));
  const std::string hint = names().hint(slot.path);
  if (type != nullptr) {
    const bool known = *type == "none" || catalog_.find(slot.kind, *type) != nullptr;
    const std::string other = known ? "" : other_slot(slot, *type);
    const bool like_path = !known && type->find_first_of("./") != type->npos;
    const std::string path = like_path ? path_key(slot.kind) : "";
    text += !other.empty() ? ", and " + other
                           : fmt::format(": write [{}] {} = {}",
                                         slot.path,
                                         path.empty() ? "type" : path,
                                         written.value->text());
  } else if (!hint.empty()) {
    text += ": " + hint;
  } else {
    text += fmt::format("; `tessera config keys {}` lists its keys", slot.path);
  }
  problem(slot.path, written.key, text);
}

void Checker::doubt_places_of(const UnknownKey& unknown) {
  if (const auto near = nearest(unknown.key, unknown.known)) {
    doubtful.insert(join_path(unknown.table, *near));
  }
  if (!types_with(unknown).empty()) doubtful.insert(join_path(unknown.table, "type"));
  const bool section = unknown.table.empty() && unknown.is_table;
  for (const std::string& key :
       section ? config_.tree().children(unknown.key) : std::vector<std::string>{unknown.key}) {
    if (const auto found = tables_of_key_.find(key); found != tables_of_key_.end()) {
      for (const std::string& table : found->second) doubtful.insert(join_path(table, key));
    }
    for (const std::string& path : names().keys_of(key)) doubtful.insert(path);
  }
}

std::string Checker::children_elsewhere(const std::string& section, const std::string& near) const {
  constexpr std::size_t kShown = 5;
  std::vector<std::string> found;
  for (const std::string& key : config_.tree().children(section)) {
    const auto tables = tables_of_key_.find(key);
    if (tables != tables_of_key_.end() && std::ranges::count(tables->second, near) > 0) continue;
    const std::string hint = tables == tables_of_key_.end()
                                 ? names().hint(key)
                                 : fmt::format("{} belongs to [{}]", key, tables->second.front());
    if (!hint.empty() && found.size() < kShown) found.push_back(hint);
  }
  return joined(found);
}

std::string Checker::unknown_text(const UnknownKey& unknown) const {
  const bool root = unknown.table.empty();
  std::string out =
      root ? (unknown.is_table ? fmt::format("unknown section [{}]", unknown.key)
                               : fmt::format("unknown key \"{}\" before any section", unknown.key))
           : fmt::format("[{}] unknown {} \"{}\"",
                         unknown.table,
                         unknown.is_table ? "table" : "key",
                         unknown.key);
  const auto near = nearest(unknown.key, unknown.known);
  const std::string inside =
      root && unknown.is_table ? children_elsewhere(unknown.key, near.value_or("")) : "";
  if (near && (!root || unknown.is_table)) {
    return out + fmt::format(": did you mean {}?{}{}",
                             root ? fmt::format("[{}]", *near) : Value(*near).text(),
                             inside.empty() ? "" : " ",
                             inside);
  }
  if (!inside.empty()) return out + ": " + inside;
  // A flag of Megatron-LM written as a key, before keys of that name: --save is checkpoint.out.
  const std::string flag = root && !unknown.is_table ? names().hint(unknown.key) : "";
  const std::string other = flag.empty() ? elsewhere(unknown) : flag;
  if (!other.empty()) return out + ": " + other;
  if (root) return out + fmt::format("; there are [{}]", fmt::join(unknown.known, "], ["));
  std::string who = fmt::format("[{}]", unknown.table);
  if (!unknown.kind.empty()) {
    const std::string library = catalog_.library_of(unknown.kind, unknown.type);
    who = fmt::format("{} \"{}\"", unknown.kind, unknown.type);
    if (!library.empty()) who += fmt::format(" ({})", library);
  }
  if (unknown.known.empty()) return out + fmt::format(": {} has no keys", who);
  return out + fmt::format("; {} knows {}", who, joined(unknown.known));
}

std::vector<std::string> Checker::types_with(const UnknownKey& unknown) const {
  std::vector<std::string> types;
  for (const ComponentInfo* info : catalog_.of_kind(unknown.kind)) {
    if (knows(*info, unknown.key)) types.push_back(fmt::format("\"{}\"", info->type));
  }
  return types;
}

std::string Checker::elsewhere(const UnknownKey& unknown) const {
  std::vector<std::string> places = types_with(unknown);
  if (!places.empty()) {
    return fmt::format("{} {} it, but type is \"{}\" here",
                       joined(places),
                       places.size() == 1 ? "knows" : "know",
                       unknown.type);
  }
  if (const auto found = tables_of_key_.find(unknown.key); found != tables_of_key_.end()) {
    for (const std::string& table : found->second) {
      const std::string place = fmt::format("[{}]", table);
      if (std::ranges::find(places, place) == places.end()) places.push_back(place);
    }
    return belongs_to(places);
  }
  if (std::ranges::count(root_sections(), unknown.key, &RootSection::name) > 0) {
    return fmt::format("[{}] is a section of its own", unknown.key);
  }
  const std::string flag = names().hint(unknown.key);
  return flag.empty() ? of_other_types(unknown.key) : flag;
}

std::string Checker::of_other_types(const std::string& key) const {
  std::vector<std::string> places;
  for (const KeyTable& table : key_tables(catalog_)) {
    if (table.kind.empty() || !knows(*catalog_.find(table.kind, table.type), key)) continue;
    places.push_back(fmt::format("[{}] with type = \"{}\"", table.path, table.type));
  }
  return belongs_to(places);
}

}  // namespace tessera
