#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernel/config/resolve.hpp"

namespace tessera {

/// The effective configuration as TOML, each key with its origin as a comment. A value that a
/// component's default or another key decides is only a comment: the component around may decide
/// otherwise while building. Loads back to the same configuration, from any folder: paths are
/// absolute.
std::string dump(const Resolved& resolved);

/// One line for each key, "lr.peak = 0.001", wherever its value comes from: the same text, the same
/// run.
std::string values_text(const Resolved& resolved);

/// A key in which two configurations differ; a side that has no such key is empty.
struct Difference {
  std::string path;
  std::optional<std::string> left, right;  ///< as text
  bool derived = true;    ///< on both sides, as far as they have it, from other keys (Entry::from)
  bool is_path = false;   ///< Entry::is_path, of either side
  std::string from = {};  ///< where derived: the key that it follows on the right
};
/// All of them, in the order of dump; what only the right one has comes last. Origins do not count.
std::vector<Difference> differences(const ConfigTree& left, const ConfigTree& right);
inline std::vector<Difference> differences(const Resolved& left, const Resolved& right) {
  return differences(*left.tree, *right.tree);
}

/// One line for each key in which two configurations differ: "- key = a" and "+ key = b" in the
/// order of dump; empty when there is none. Those that are derived are left out.
std::vector<std::string> diff(const Resolved& left, const Resolved& right);

/// The same for people: "lr.peak: 0.002, now 0.001". Plugins may differ between the two, so where
/// only derived keys differ, these are told.
std::vector<std::string> changes(const std::vector<Difference>& differences);

}  // namespace tessera
