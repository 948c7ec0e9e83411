#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernel/config/catalog.hpp"
#include "kernel/config/config.hpp"
#include "kernel/config/resolve.hpp"

namespace tessera {

/// Checks a configuration that is not a run's, table by table: what is written against the fields
/// that a table has, without the sections of a run. Collects every problem with its line, and a
/// tree with all values, defaults too; paths are absolute.
class TableChecker {
 public:
  TableChecker(const Config& config, const Catalog& catalog)
      : config_(config), catalog_(catalog), tree_(std::make_shared<ConfigTree>()) {}

  /// The keys of a table; `others` are keys and tables that somebody else checks. Table "": the
  /// root.
  void check(const std::string& table,
             const std::vector<FieldSpec>& fields,
             const std::vector<std::string>& others = {});
  /// The table of a component, whose `type` chooses it. Returns the type; empty: it has a problem.
  std::string check_component(const std::string& table, std::string_view kind);
  void problem(const Origin& at, const std::string& text);

  /// Throws ConfigError with all problems, if there are any.
  void finish() const;
  std::shared_ptr<const ConfigTree> tree() const { return tree_; }

 private:
  void check_field(const std::string& table, const FieldSpec& spec);

  const Config& config_;
  const Catalog& catalog_;
  std::shared_ptr<ConfigTree> tree_;
  std::vector<Problem> problems_;
};

}  // namespace tessera
