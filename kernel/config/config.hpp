#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/config/source.hpp"
#include "kernel/config/toml.hpp"
#include "kernel/config/tree.hpp"

namespace tessera {

/// One place that writes a `type` key: an overlay may change the plugin of a table.
struct TypeChange {
  int layer = 0;
  Value value;
};

/// TOML that is in no file; `name` is where errors say it is.
struct ConfigText {
  std::string name, text;
};

/// What files and --set say, merged, with the origin of everything; not yet checked by schemas.
class Config {
 public:
  /// Merges files left to right, then `key=value` settings. Throws ConfigError with file, line and
  /// column for what is not TOML, or not TOML that configuration uses (dates, arrays of tables).
  static Config load(const std::vector<std::string>& files,
                     const std::vector<std::string>& sets = {},
                     TableArrays arrays = TableArrays::refused);
  /// The same from a text; `name` stands for the file, relative paths start at the working folder.
  static Config parse(const std::string& text,
                      const std::string& name = "text",
                      const std::vector<std::string>& sets = {});
  /// The same for a text that somebody else may have written, as in a checkpoint: it includes no
  /// files, and folders of plugins that it names are not in plugin_path(). `command`: what the
  /// command that reads it says, before `sets`.
  static Config stored(const std::string& text,
                       const std::string& name,
                       const std::vector<std::string>& sets = {},
                       const ConfigText& command = {});

  const ConfigTree& tree() const { return *tree_; }
  const std::vector<ConfigSource>& sources() const { return sources_; }
  /// All writings of a table's `type`, in order of precedence. `path` is the table's.
  std::vector<TypeChange> types(std::string_view path) const;

  /// Writes below `path` what is written below `base`, where `path` has nothing of its own: values
  /// with their origins and Entry::from, and writings of `type`, which count as earlier ones.
  void inherit(const std::string& base, const std::string& path);

  /// The table as it was written, without schemas and defaults.
  std::unique_ptr<ConfigNode> node(const std::string& path) const;

  /// The string at `key` as an absolute path: relative ones start at the folder of the file that
  /// wrote the key, or at the working folder for --set and defaults. Throws ConfigError when the
  /// key is not set to a string.
  std::filesystem::path resolve_path(std::string_view key) const;
  /// `text`, written at `origin`, as an absolute path; "~/" is the home folder. Throws ConfigError,
  /// without the place, where expand_home() does.
  std::filesystem::path resolve_path(std::string_view text, const Origin& origin) const;

  /// The source line at a position for an error's text (source.hpp); empty for defaults.
  std::string excerpt_at(const Origin& at) const;

  /// `[plugins] path` as the user gives it, absolute. Needed before there is a catalog to resolve
  /// with.
  std::vector<std::filesystem::path> plugin_path() const;
  /// `[plugins] path` of a stored text, where the user gives none: only for messages.
  std::vector<std::filesystem::path> stored_plugin_path() const;

 private:
  friend class ConfigReader;
  std::vector<std::filesystem::path> plugin_path_if(bool stored) const;
  std::filesystem::path placed_path(std::string_view key,
                                    std::string_view text,
                                    const Origin& at) const;
  std::shared_ptr<ConfigTree> tree_ = std::make_shared<ConfigTree>();
  std::vector<ConfigSource> sources_;
  std::map<std::string, std::vector<TypeChange>, std::less<>> types_;
  bool stored_ = false;  ///< the first layer is not the user's
};

}  // namespace tessera
