#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/config/catalog.hpp"

namespace tessera {

// Every key that a configuration may have, from the schemas of the kernel's sections and of all
// components of a catalog. There is no other list: `plugins show`, `config keys`, the pages of
// configs/ and the hints of errors all read this one.

/// One key, for people.
struct KeyRow {
  std::string name;     ///< within its table; "NAME.match" in tables of any name
  std::string type;     ///< "integer >= 1"
  std::string initial;  ///< "4", "required", "from model.hidden"
  std::string doc;
  std::string megatron;       ///< Megatron-LM's flags with spaces between, or empty
  bool structural = false;    ///< it changes what parameters compute (FieldBuilder::structural)
  std::string variants_of{};  ///< in tables of any name: the table that each of them is like
  std::vector<FieldSpec::OtherNames> also{};
};

/// The keys of one table: the kernel's own, or those of a component where it stands.
struct KeyTable {
  std::string path;               ///< "model.block.mlp"; of a component: its first place
  std::vector<std::string> also;  ///< the component's further places by default
  std::string kind, type;         ///< of the component; empty: a section of the kernel
  bool initial = false;           ///< it is what stands here by default
  std::string doc;
  std::vector<KeyRow> rows;
};

/// The rows of a schema's keys, in its order.
std::vector<KeyRow> key_rows(const std::vector<FieldSpec>& fields);

/// In the order of root_sections(); the components of a table follow it, the default first. A
/// component's place is where a slot has it by default, or else the first slot of its kind.
std::vector<KeyTable> key_tables(const Catalog& catalog);

/// The keys of a table and of the tables in it. For a table of any name ("optimizer.groups.mine"):
/// the rows of the table around it that lead there, and the tables that it is like. Throws
/// ConfigError when there are none; for a key, the error says in which tables it is.
std::vector<KeyTable> tables_below(const std::vector<KeyTable>& tables, const std::string& section);

/// A line each, in columns.
std::string rows_text(const std::vector<KeyRow>& rows);
std::string keys_text(const std::vector<KeyTable>& tables);
/// configs/REFERENCE.md, for all tables.
std::string keys_markdown(const std::vector<KeyTable>& tables);
/// The generated part of configs/MEGATRON.md.
std::string megatron_markdown(const std::vector<KeyTable>& tables);

}  // namespace tessera
