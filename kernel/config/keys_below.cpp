// What is below a path, for `tessera config keys PATH`.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "kernel/config/keys.hpp"
#include "kernel/config/run_config.hpp"
#include "tessera/error.hpp"
#include "tessera/io/suggest.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

std::vector<std::string> places_of(const KeyTable& table) {
  std::vector<std::string> places = {table.path};
  places.insert(places.end(), table.also.begin(), table.also.end());
  return places;
}

// What is left of a path and of a row's name after the parts in which they agree; NAME stands for
// any part.
std::pair<std::string_view, std::string_view> after_common(std::string_view path,
                                                           std::string_view row) {
  while (!path.empty() && !row.empty()) {
    const std::size_t part = std::min(path.find('.'), path.size());
    const std::size_t name = std::min(row.find('.'), row.size());
    if (row.substr(0, name) != "NAME" && row.substr(0, name) != path.substr(0, part)) break;
    path.remove_prefix(std::min(part + 1, path.size()));
    row.remove_prefix(std::min(name + 1, row.size()));
  }
  return {path, row};
}

// Tables that are no KeyTable but rows of the one around them: those of any name, and slots that
// are empty by default.
std::vector<KeyTable> tables_in_rows(const std::vector<KeyTable>& tables,
                                     const std::string& section) {
  std::vector<KeyTable> out;
  std::set<std::string> alike;
  for (const KeyTable& table : tables) {
    for (const std::string& place : places_of(table)) {
      if (!section.starts_with(place + ".")) continue;
      KeyTable part{place, {}, table.kind, table.type, table.initial, table.doc, {}};
      bool inside = false;
      for (const KeyRow& row : table.rows) {
        const auto [rest, below] =
            after_common(std::string_view(section).substr(place.size() + 1), row.name);
        const bool variant = !row.variants_of.empty() && below.empty();
        if (variant) {
          const std::string like = join_path(place, row.variants_of);
          alike.insert(rest.empty() ? like : join_path(like, rest));
        }
        if (!rest.empty()) continue;
        part.rows.push_back(row);
        inside = inside || variant || !below.empty();
      }
      if (inside) out.push_back(std::move(part));
    }
  }
  for (const std::string& like : alike) {
    for (KeyTable& table : tables_below(tables, like)) out.push_back(std::move(table));
  }
  return out;
}

// "[lr] has the key peak: tessera config keys lr", for "lr.peak" and for "peak"; empty where there
// is no key of that name.
std::string holders_of_key(const std::vector<KeyTable>& tables, const std::string& section) {
  constexpr std::size_t kShown = 3;
  const std::size_t dot = section.rfind('.');
  const std::string table_of = dot == section.npos ? "" : section.substr(0, dot);
  const std::string key = section.substr(dot + 1);  // npos + 1 is 0
  std::vector<std::string> here, elsewhere;
  const auto add = [](std::vector<std::string>& to, const std::string& path) {
    if (std::ranges::count(to, path) == 0) to.push_back(path);
  };
  for (const KeyTable& table : tables) {
    for (const KeyRow& row : table.rows) {
      const std::size_t last = row.name.rfind('.');
      if (row.name.substr(last + 1) != key) continue;
      for (const std::string& place : places_of(table)) {
        const std::string holder =
            join_path(place, last == row.name.npos ? "" : row.name.substr(0, last));
        const auto [rest, below] = after_common(table_of, holder);
        if (rest.empty() && below.empty()) add(here, holder);
        if (place == table.path) add(elsewhere, holder);
      }
    }
  }
  std::vector<std::string> found = here.empty() ? std::move(elsewhere) : std::move(here);
  if (found.empty()) return "";
  if (found.size() > kShown) found.resize(kShown);
  return fmt::format("[{}] {} the key {}: tessera config keys {}",
                     fmt::join(found, "], ["),
                     found.size() == 1 ? "has" : "have",
                     key,
                     found.front());
}

}  // namespace

std::vector<KeyTable> tables_below(const std::vector<KeyTable>& tables,
                                   const std::string& section) {
  const auto below = [&](const std::string& path) {
    return section.empty() || path == section || path.starts_with(section + ".");
  };
  std::vector<KeyTable> out;
  std::vector<std::string> known;
  for (const KeyTable& table : tables) {
    const std::vector<std::string> places = places_of(table);
    known.insert(known.end(), places.begin(), places.end());
    if (std::ranges::any_of(places, below)) out.push_back(table);
  }
  if (out.empty()) out = tables_in_rows(tables, section);
  if (!out.empty()) return out;
  const std::string holders = holders_of_key(tables, section);
  const std::string shown = written_plain(section);
  if (!holders.empty()) fail_config("there is no table [{}]; {}", shown, holders);
  const auto near = nearest(section, known);
  std::vector<std::string> roots;
  for (const RootSection& root : root_sections()) roots.push_back(root.name);
  fail_config("there is no table [{}]{}\n  sections: {}",
              shown,
              near ? fmt::format("; did you mean [{}]?", *near) : "",
              fmt::join(roots, ", "));
}

}  // namespace tessera
