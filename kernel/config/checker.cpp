#include "kernel/config/checker.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

constexpr int kMaxDepth = 32;

bool is_none(std::string_view type) { return type.empty() || type == "none"; }

const FieldSpec* find_field(const TypeEra& era, std::string_view name) {
  const auto found = std::ranges::find(era.fields, name, &FieldSpec::name);
  return found == era.fields.end() ? nullptr : *found;
}

// Orders by files, lines and columns; defaults last.
auto place_of(const Origin& at) {
  return std::tuple(at.kind == Origin::initial, at.layer, at.line, at.column);
}

// Adds the fields of a kind, each name once.
void add_fields(const std::vector<const ComponentInfo*>& infos, TypeEra& era) {
  for (const ComponentInfo* info : infos) {
    for (const FieldSpec& spec : info->fields) {
      if (find_field(era, spec.name) == nullptr) era.fields.push_back(&spec);
    }
  }
}

}  // namespace

std::string label(std::string_view path) {
  const std::string_view table = parent_of(path);
  return table.empty() ? std::string(path) : fmt::format("[{}] {}", table, last_of(path));
}

void Checker::problem(const std::string& path,
                      const Origin& at,
                      const std::string& text,
                      const std::string& details) {
  if (!path.empty()) doubtful.insert(section_of(path));
  tell(at, text, details);
}

void Checker::tell(const Origin& at, const std::string& text, const std::string& details) {
  const std::string where = at.kind == Origin::initial ? "" : at.text() + ": ";
  const auto whole = [&](const std::string& what) {
    return where + what + config_.excerpt_at(at) + details;
  };
  if (variant_) {
    std::string of_base = text;
    for (auto found = of_base.find(variant_->path); found != of_base.npos;
         found = of_base.find(variant_->path, found)) {
      of_base.replace(found, variant_->path.size(), variant_->base);
    }
    if (std::ranges::find(problems, whole(of_base), &Problem::text) != problems.end()) return;
  }
  problems.push_back({at, whole(text)});
}

std::string section_of(std::string_view path) {
  return std::string(path.substr(0, path.find('.')));
}

void Checker::doubt_what_is_taken() {
  for (bool more = true; more;) {
    more = false;
    for (const auto& [path, source] : taken_from_) {
      if (touches(doubtful, path) || !touches(doubtful, source)) continue;
      more = doubtful.insert(path).second;
    }
  }
}

void Checker::run() {
  std::vector<std::string> names;
  for (const RootSection& section : root_sections()) {
    names.push_back(section.name);
    check_section(section);
  }
  for (const std::string& name : config_.tree().children("")) {
    if (std::ranges::find(names, name) != names.end()) continue;
    const Entry& entry = *config_.tree().find(name);
    unknown_.push_back({"", name, entry.key, !entry.value, names, "", ""});
  }
  settle_from();
  drop_keys_of_units();
  complete_paths();
  tell_given();
  find_written_slots();
  // Each search for the nearest key goes through all keys, and a report shows few.
  constexpr std::size_t kExplained = 100;
  std::ranges::stable_sort(unknown_, {}, [](const UnknownKey& one) { return place_of(one.at); });
  for (std::size_t i = 0; i < unknown_.size(); ++i) {
    const UnknownKey& unknown = unknown_[i];
    if (i < kExplained) {
      doubt_places_of(unknown);
      tell(unknown.at, unknown_text(unknown));
    } else {
      problem(unknown.table,
              unknown.at,
              fmt::format("[{}] unknown key {}", unknown.table, unknown.key));
    }
  }
  doubt_what_is_taken();
  std::ranges::stable_sort(problems, {}, [](const Problem& one) { return place_of(one.at); });
}

void Checker::check_section(const RootSection& section) {
  if (section.each) {
    std::vector<std::string> names = config_.tree().children(section.name);
    for (const std::string& name : section.always) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    for (const std::string& name : names) {
      const std::string path = join_path(section.name, name);
      check_slot({path, section.kind, {era(-1, section.kind, name)}, false, true, nullptr});
    }
    if (const Entry* entry = config_.tree().find(section.name); entry != nullptr && entry->value) {
      problem(section.name,
              entry->key,
              fmt::format("{} is a table of tables, not a value", section.name));
    }
    return;
  }
  if (!section.kind.empty()) {
    check_slot({section.name,
                section.kind,
                {era(-1, section.kind, section.default_type)},
                section.default_type == "auto",
                false,
                &section.fields,
                section.structural,
                section.by_units});
    return;
  }
  const Entry* entry = config_.tree().find(section.name);
  if (entry != nullptr && entry->value) {
    std::vector<std::string_view> keys;
    for (const FieldSpec& spec : section.fields) keys.emplace_back(spec.name);
    problem(section.name,
            entry->key,
            fmt::format("{} is a section: write [{}] and one of its keys: {}",
                        section.name,
                        section.name,
                        fmt::join(keys, ", ")));
    return;
  }
  tree.put(section.name, entry != nullptr ? *entry : Entry());
  std::vector<const FieldSpec*> fields;
  for (const FieldSpec& spec : section.fields) fields.push_back(&spec);
  check_keys(section.name, fields, {}, "");
}

TypeEra Checker::era(int first_layer, std::string_view kind, const std::string& type) const {
  TypeEra era{first_layer, type, catalog_.find(kind, type), {}};
  if (era.info != nullptr) {
    add_fields({era.info}, era);
  } else if (type == "auto") {
    add_fields(catalog_.of_kind(kind), era);
  }
  return era;
}

std::vector<TypeEra> Checker::timeline(const Slot& slot) const {
  std::vector<TypeEra> eras = slot.defaults;
  const std::vector<TypeChange> changes = config_.types(slot.path);
  if (!changes.empty()) {
    // A default counts only until the type was written.
    std::erase_if(eras, [&](const TypeEra& e) { return e.first_layer >= changes[0].layer; });
  }
  for (const TypeChange& change : changes) {
    const auto* type = std::get_if<std::string>(&change.value.data);
    if (type == nullptr || (!eras.empty() && eras.back().type == *type)) continue;
    eras.push_back(era(change.layer, slot.kind, *type));
  }
  return eras;
}

std::vector<TypeEra> Checker::slot_defaults(const FieldSpec& spec,
                                            const std::vector<TypeEra>& eras) const {
  std::vector<TypeEra> out;
  const auto add = [&](int layer, const FieldSpec& from) {
    if (!from.initial) return;
    const std::string& type = std::get<std::string>(from.initial->data);
    if (out.empty() || out.back().type != type)
      out.push_back(era(layer, spec.component_kind, type));
  };
  for (const TypeEra& around : eras) {
    const FieldSpec* declared = find_field(around, spec.name);
    if (declared != nullptr && declared->type == FieldType::component &&
        declared->component_kind == spec.component_kind) {
      add(around.first_layer, *declared);
    }
  }
  if (eras.empty()) add(-1, spec);
  return out;
}

void Checker::check_slot(const Slot& slot) {
  const Entry* table = config_.tree().find(slot.path);
  if (table != nullptr && table->value) {
    value_of_slot(slot, *table);
    return;
  }
  if (depth_ >= kMaxDepth) {
    problem(slot.path, Origin(), fmt::format("[{}] slots inside slots without end", slot.path));
    return;
  }
  tree.put(slot.path, table != nullptr ? *table : Entry());
  std::vector<TypeEra> eras = timeline(slot);
  if (eras.empty()) eras.push_back({});  // no default and no usable type: check_type tells
  choose_by_units(slot, eras);
  const bool known = check_type(slot, eras.back());

  std::vector<const FieldSpec*> fields;
  if (slot.own != nullptr) {
    for (const FieldSpec& spec : *slot.own) fields.push_back(&spec);
  }
  if (eras.back().info != nullptr || slot.allows_auto) {
    fields.insert(fields.end(), eras.back().fields.begin(), eras.back().fields.end());
  }
  ++depth_;
  if (known) {
    check_keys(slot.path, fields, eras, slot.kind);
  } else {
    for (const FieldSpec* spec : fields) check_field(slot.path, *spec, eras);
  }
  --depth_;
  check_share(slot, eras.back());
  if (slot.around.empty()) return;
  slots_[slot.path] = {{slot.path, slot.around, slot.doc, "", {}},
                       slot.defaults.empty() ? "" : slot.defaults.back().type};
}

bool Checker::check_type(const Slot& slot, const TypeEra& era) {
  const std::string path = join_path(slot.path, "type");
  const Entry* written = config_.tree().find(path);
  if (written != nullptr) {
    const auto* type = written->value ? std::get_if<std::string>(&written->value->data) : nullptr;
    if (type == nullptr) {
      problem(path,
              written->at,
              fmt::format("[{}] type: expected the name of a {}", slot.path, slot.kind));
      return false;
    }
  } else if (slot.defaults.empty()) {
    missing(slot.path, "type", fmt::format("the name of a {}", slot.kind));
    return false;
  }
  const bool chosen = era.info != nullptr || (slot.allows_auto && era.type == "auto");
  const bool nothing = !chosen && is_none(era.type);
  const bool optional =
      slot.allows_none || (!slot.defaults.empty() && is_none(slot.defaults.back().type));
  if (nothing && !optional) {
    problem(path,
            written != nullptr ? written->at : Origin(),
            fmt::format("[{}] type = \"{}\": a {} is needed here", slot.path, era.type, slot.kind));
    return false;
  }
  Entry entry = written != nullptr ? *written : Entry();
  entry.value = Value(nothing ? "" : era.type);
  entry.structural = slot.structural;
  if (!era.by_units.empty()) entry.note = fmt::format("\"auto\": {}", era.by_units);
  tree.put(path, std::move(entry));
  if (!chosen && !nothing) unknown_type(slot, era.type, written);
  return chosen || nothing;
}

void Checker::check_keys(const std::string& path,
                         const std::vector<const FieldSpec*>& fields,
                         const std::vector<TypeEra>& eras,
                         std::string_view kind) {
  for (const FieldSpec* spec : fields) check_field(path, *spec, eras);
  for (const std::string& key : config_.tree().children(path)) {
    const bool declared = std::ranges::find(fields, key, &FieldSpec::name) != fields.end();
    if (!declared && (kind.empty() || key != "type")) check_unknown(path, key, fields, eras, kind);
  }
}

void Checker::check_field(const std::string& table,
                          const FieldSpec& spec,
                          const std::vector<TypeEra>& eras) {
  const std::string path = join_path(table, spec.name);
  const Entry* entry = config_.tree().find(path);
  // What "auto" will choose has its own defaults.
  const bool open = !eras.empty() && eras.back().info == nullptr;
  if (entry == nullptr && open && find_field(eras.back(), spec.name) == &spec) return;
  if (!spec.given) tables_of_key_[spec.name].push_back(table);
  // The word that leaves a key open leaves it to the key that it is taken from.
  const bool follows = entry != nullptr && entry->value && !spec.from.empty() && spec.allows_auto &&
                       *entry->value == Value(spec.automatic);
  if (spec.type == FieldType::component) {
    check_slot({path,
                spec.component_kind,
                slot_defaults(spec, eras),
                false,
                false,
                nullptr,
                spec.structural,
                false,
                table,
                spec.doc});
  } else if (spec.type == FieldType::tables) {
    check_tables(path, spec);
  } else if (spec.type == FieldType::variants) {
    check_variants(table, spec, eras);
  } else if (entry != nullptr && spec.given) {
    given_.push_back({table, &spec, entry->key, variant_});
  } else if (entry == nullptr || follows) {
    check_missing(path, spec);
  } else {
    check_value(path, spec, *entry);
  }
}

void Checker::check_tables(const std::string& path, const FieldSpec& spec) {
  const Entry* table = config_.tree().find(path);
  if (table == nullptr) return;
  if (table->value) {
    problem(path, table->key, fmt::format("{} holds tables: write [{}.NAME]", label(path), path));
    return;
  }
  tree.put(path, *table);
  std::vector<const FieldSpec*> fields;
  for (const FieldSpec& field : spec.table_fields) fields.push_back(&field);
  for (const std::string& name : config_.tree().children(path)) {
    const std::string child = join_path(path, name);
    const Entry& entry = *config_.tree().find(child);
    if (entry.value) {
      problem(child, entry.key, fmt::format("[{}] holds tables: write [{}]", path, child));
      continue;
    }
    tree.put(child, entry);
    check_keys(child, fields, {}, "");
  }
}

void Checker::check_variants(const std::string& table,
                             const FieldSpec& spec,
                             const std::vector<TypeEra>& eras) {
  const std::string path = join_path(table, spec.name), base = join_path(table, spec.variants_of);
  const Entry* written = config_.tree().find(path);
  if (written == nullptr) return;
  if (written->value) {
    problem(path, written->key, fmt::format("{} holds tables: write [{}.NAME]", label(path), path));
    return;
  }
  tree.put(path, *written);
  const FieldSpec* slot = eras.empty() ? nullptr : find_field(eras.back(), spec.variants_of);
  for (const std::string& name : config_.tree().children(path)) {
    const std::string child = join_path(path, name);
    const Entry& entry = *config_.tree().find(child);
    if (entry.value) {
      problem(child, entry.key, fmt::format("[{}] holds tables: write [{}]", path, child));
    } else if (slot != nullptr) {
      config_.inherit(base, child);
      variant_ = {child, base};
      check_slot({child,
                  spec.component_kind,
                  slot_defaults(*slot, eras),
                  false,
                  false,
                  nullptr,
                  slot->structural,
                  false,
                  table,
                  slot->doc});
      slots.variants.push_back(*variant_);
      variant_.reset();
    }
  }
}

void Checker::check_unknown(const std::string& table,
                            const std::string& key,
                            const std::vector<const FieldSpec*>& fields,
                            const std::vector<TypeEra>& eras,
                            std::string_view kind) {
  const std::string path = join_path(table, key);
  if (drop(path, eras)) return;
  if (config_.tree().find(path)->inherited()) return;  // as unknown where it was written
  UnknownKey unknown;
  unknown.table = table;
  unknown.key = key;
  unknown.at = config_.tree().find(path)->key;
  unknown.is_table = !config_.tree().find(path)->value;
  if (!kind.empty()) unknown.known.emplace_back("type");
  for (const FieldSpec* spec : fields) {
    if (!spec->given) unknown.known.push_back(spec->name);
  }
  unknown.kind = kind;
  unknown.type = eras.empty() ? "" : eras.back().type;
  unknown_.push_back(std::move(unknown));
}

bool Checker::drop(const std::string& path, const std::vector<TypeEra>& eras) {
  if (eras.size() < 2) return false;
  const TypeEra& now = eras.back();
  const auto old = std::find_if(eras.begin(), eras.end() - 1, [&](const TypeEra& e) {
    return find_field(e, last_of(path)) != nullptr;
  });
  if (old == eras.end() - 1) return false;
  const auto& entries = config_.tree().entries();
  for (auto at = entries.lower_bound(path); at != entries.end(); ++at) {
    if (at->first != path && !at->first.starts_with(path + '.')) {
      if (at->first.starts_with(path)) continue;  // "a-b" sorts between "a" and "a.x"
      break;
    }
    if (at->second.inherited()) continue;
    const bool later = at->second.value && at->second.at.layer >= now.first_layer;
    if (later && now.by_units.empty()) return false;
  }
  if (config_.tree().find(path)->inherited()) return true;  // the variant is of another type
  const Entry* type = config_.tree().find(join_path(parent_of(path), "type"));
  notices.push_back(
      fmt::format("{}: [{}] is \"{}\" {}: \"{}\" ({}) is dropped, {} knows it",
                  type != nullptr ? type->at.text() : "default",
                  parent_of(path),
                  now.type,
                  now.by_units.empty() ? "now" : "here",
                  last_of(path),
                  config_.tree().find(path)->key.text(),
                  now.by_units.empty() ? fmt::format("only \"{}\"", old->type) : "another"));
  return true;
}

}  // namespace tessera
