#pragma once
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/config/catalog.hpp"
#include "kernel/config/config.hpp"
#include "kernel/config/run_config.hpp"
#include "kernel/config/slot_tables.hpp"

namespace tessera {

/// What a checkpoint holds of a model.
struct StoredParameters {
  std::string folder;
  i64 tensors = 0, elements = 0;
};

/// Whether `path` is one of `paths`, lies below one, or has one below it.
bool touches(const std::set<std::string>& paths, std::string_view path);

/// A configuration that passed all checks. Copies share the tree.
struct Resolved {
  RunConfig run;
  /// Every key of every component in use, defaults and `from` values included.
  std::shared_ptr<const ConfigTree> tree;
  /// Keys that moved, and keys that were dropped because an overlay changed a `type`.
  std::vector<std::string> notices;
  /// Paths whose values may not be what was meant: sections with a wrong value, keys that a
  /// misspelt one may have been meant for, and keys that take their value from these. Conclude
  /// nothing from their values. Empty after resolve().
  std::set<std::string> doubtful;
  /// Whether something at, above or below `path` is doubtful.
  bool doubts(std::string_view path) const { return touches(doubtful, path); }
  /// Set for a checkpoint's own configuration: the model that it claims is built no further than
  /// the checkpoint's tensors could be its parameters.
  std::optional<StoredParameters> stored = {};
  /// Slots that the configuration speaks of.
  SlotTables slots = {};
  /// The table at `path`, to make a component from; valid on its own.
  std::unique_ptr<ConfigNode> node(const std::string& path) const { return make_node(tree, path); }
};

/// One thing that is wrong, as it is printed: headline with position, source line, details.
struct Problem {
  Origin at;
  std::string text;
};

struct CheckResult {
  std::vector<Problem> problems;  ///< by position
  Resolved resolved;              ///< its doubtful sections have defaults in `run`
};

/// Checks a configuration against the kernel's sections and the components it names. Does not
/// throw for what is wrong with it.
CheckResult check(const Config& config, const Catalog& catalog);

/// The same, but throws ConfigError with all problems (the first 20 in full).
Resolved resolve(const Config& config, const Catalog& catalog);

/// All problems as one text, as resolve throws it.
std::string report(const std::vector<Problem>& problems);

}  // namespace tessera
