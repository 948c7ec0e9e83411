#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/value.hpp"

namespace tessera {

/// Where a key or a value was written. `layer` counts what was read, in order of precedence:
/// included files before the file that includes them, then each --set. Later layers win.
struct Origin {
  enum Kind : u8 { initial, file, set } kind = initial;
  int layer = -1;
  std::string name;  ///< path of the file as it was given; "--set #1"
  int line = 0, column = 0, length = 0;
  /// "configs/x.toml:12:3", "--set #1", "default".
  std::string text() const;
};

/// A value or a table at a dotted path.
struct Entry {
  std::optional<Value> value;  ///< empty: a table
  Origin key, at;              ///< position of the key (of a table: in its header), of the value
  std::string raw;             ///< of a --set: the text after "="
  std::string from;            ///< the path that the value was taken from; empty: none
  std::string note;            ///< of the resolved tree: why a word stands for this value
  int order = 0;               ///< in which entries were read
  bool structural = false;     ///< of the resolved tree: as its field says (FieldSpec)
  bool is_path = false;        ///< of the resolved tree: an absolute path, or several
  bool is_set() const { return key.kind != Origin::initial; }
  /// Written at another path (Config::inherit).
  bool inherited() const { return is_set() && !from.empty(); }
};

/// Paths with their entries. Every prefix of a path is a table of the tree.
class ConfigTree {
 public:
  const Entry* find(std::string_view path) const;
  /// Adds or replaces; a value replaces a table with all that is below, and the other way round.
  Entry& put(const std::string& path, Entry entry);
  void erase(const std::string& path);  ///< with all that is below
  /// Direct children of a table as names, in the order of writing; defaults last.
  std::vector<std::string> children(std::string_view path) const;
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }

 private:
  void erase_below(const std::string& path);
  std::map<std::string, Entry, std::less<>> entries_;
  int next_order_ = 0;
};

/// The part after the last dot, and the part before it.
std::string_view last_of(std::string_view path);
std::string_view parent_of(std::string_view path);

/// A table of a tree as components read it. `find` sees what was written, `absolute` also defaults.
std::unique_ptr<ConfigNode> make_node(std::shared_ptr<const ConfigTree> tree, std::string path);

}  // namespace tessera
