#include "kernel/config/keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernel/config/run_config.hpp"

namespace tessera {
namespace {

std::string initial_text(const FieldSpec& field) {
  if (field.given && field.from.empty()) return "set by the parent";
  if (!field.from.empty()) return "from " + field.from;
  if (field.type == FieldType::tables || field.type == FieldType::variants) return "none";
  return field.initial ? field.initial->text() : "required";
}

void add_rows(std::vector<KeyRow>& rows, const std::string& prefix, const FieldSpec& field) {
  const std::string name = prefix + field.name + (field.type == FieldType::variants ? ".NAME" : "");
  rows.push_back({name,
                  field.type_text(),
                  initial_text(field),
                  field.doc,
                  field.megatron,
                  field.structural,
                  field.variants_of,
                  field.also});
  for (const FieldSpec& inner : field.table_fields) add_rows(rows, name + ".NAME.", inner);
}

// Walks slots from the root sections down and gives every component its places.
class Walk {
 public:
  explicit Walk(const Catalog& catalog) : catalog_(catalog) {}

  std::vector<KeyTable> run() {
    for (const RootSection& section : root_sections()) {
      tables_.push_back({section.name, {}, "", "", true, section.doc, own_rows(section)});
      if (section.kind.empty()) continue;
      if (section.each) {
        for (const ComponentInfo* info : catalog_.of_kind(section.kind)) {
          place(join_path(section.name, info->type), *info, true);
        }
        continue;
      }
      slot(section.name, section.kind, section.default_type);
    }
    // A component that is no slot's default may stand in every slot of its kind.
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const auto [path, kind] = slots_[i];
      for (const ComponentInfo* info : catalog_.of_kind(kind)) {
        if (!known(*info)) place(likely_slot(*info), *info, false);
      }
    }
    std::ranges::stable_sort(tables_, {}, [this](const KeyTable& table) { return order(table); });
    return std::move(tables_);
  }

 private:
  std::vector<KeyRow> own_rows(const RootSection& section) const {
    std::vector<KeyRow> rows;
    if (!section.kind.empty()) {
      const std::string name = section.each ? "NAME.type" : "type";
      rows.push_back({name,
                      fmt::format("{} plugin", section.kind),
                      section.each ? "NAME" : Value(section.default_type).text(),
                      section.each ? "the component; \"none\": it is off"
                                   : "the component; its keys are in this table too",
                      section.megatron,
                      section.structural});
    }
    for (KeyRow& row : key_rows(section.fields)) rows.push_back(std::move(row));
    return rows;
  }

  bool known(const ComponentInfo& info) const {
    return std::ranges::any_of(tables_, [&](const KeyTable& table) {
      return table.kind == info.kind && table.type == info.type;
    });
  }

  // The slot of its kind whose default component has most keys in common with it.
  std::string likely_slot(const ComponentInfo& info) const {
    const auto in_common = [&](const std::string& path) {
      const auto holds = [&](const KeyTable& table) {
        return table.initial && table.kind == info.kind &&
               (table.path == path || std::ranges::count(table.also, path) > 0);
      };
      const auto table = std::ranges::find_if(tables_, holds);
      if (table == tables_.end()) return std::ptrdiff_t{0};
      return std::ranges::count_if(info.fields, [&](const FieldSpec& field) {
        return std::ranges::count(table->rows, field.name, &KeyRow::name) > 0;
      });
    };
    const std::string* best = nullptr;
    for (const auto& [path, kind] : slots_) {
      if (kind != info.kind) continue;
      if (best == nullptr || in_common(path) > in_common(*best)) best = &path;
    }
    return *best;
  }

  void slot(const std::string& path, const std::string& kind, const std::string& type) {
    slots_.emplace_back(path, kind);
    if (const ComponentInfo* info = catalog_.find(kind, type)) place(path, *info, true);
  }

  void place(const std::string& path, const ComponentInfo& info, bool initial) {
    if (std::ranges::count(path, '.') > kDeepestSlot) return;  // slots in slots without end
    const auto found = std::ranges::find_if(tables_, [&](const KeyTable& table) {
      return table.kind == info.kind && table.type == info.type;
    });
    if (found != tables_.end()) {
      // Two optimizers have their rule in one place.
      if (path != found->path && std::ranges::count(found->also, path) == 0) {
        found->also.push_back(path);
      }
    } else {
      KeyTable table{path, {}, info.kind, info.type, initial, info.doc, key_rows(info.fields)};
      for (KeyRow& row : table.rows) {
        const auto field = std::ranges::find(info.fields, row.name, &FieldSpec::name);
        if (field != info.fields.end() && field->type == FieldType::component) row.name += ".type";
      }
      tables_.push_back(std::move(table));
    }
    for (const FieldSpec& field : info.fields) {
      if (field.type != FieldType::component) continue;
      const auto* type = field.initial ? std::get_if<std::string>(&field.initial->data) : nullptr;
      slot(join_path(path, field.name), field.component_kind, type == nullptr ? "" : *type);
    }
  }

  // A section, the component that it has by default, the others; then the tables in it.
  std::tuple<std::size_t, std::size_t, int> order(const KeyTable& table) const {
    const std::string_view root = std::string_view(table.path).substr(0, table.path.find('.'));
    const auto section = std::ranges::find(root_sections(), root, &RootSection::name);
    const auto place = std::ranges::find(
        slots_, table.path, [](const auto& slot) -> const std::string& { return slot.first; });
    return {static_cast<std::size_t>(section - root_sections().begin()),
            place == slots_.end() ? 0 : static_cast<std::size_t>(place - slots_.begin()),
            table.kind.empty() ? 0
            : table.initial    ? 1
                               : 2};
  }

  static constexpr int kDeepestSlot = 8;
  const Catalog& catalog_;
  std::vector<KeyTable> tables_;
  std::vector<std::pair<std::string, std::string>> slots_;  // path, kind; in the order of finding
};

}  // namespace

std::vector<KeyRow> key_rows(const std::vector<FieldSpec>& fields) {
  std::vector<KeyRow> rows;
  for (const FieldSpec& field : fields) add_rows(rows, "", field);
  return rows;
}

std::vector<KeyTable> key_tables(const Catalog& catalog) { return Walk(catalog).run(); }

}  // namespace tessera
