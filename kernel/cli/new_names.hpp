#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

class PluginHost;

// The names that `tessera new` gives a copy of a template: which there can be, and how they replace
// those of the template.

/// A file of a template: its name without folders, and its text.
struct TemplateFile {
  std::string name, text;
};

/// Gives the plugin of a template another name: my_norm in names of files, targets and components,
/// MyNorm in those of classes.
struct Renaming {
  std::string from, to;
  std::string operator()(std::string text) const;
};

/// Throws ConfigError saying why no plugin can have this name, whatever it brings.
void check_plugin_name(const std::string& name);

/// Throws ConfigError where a plugin made of these files of the template for `kind` would not build
/// or load under its new name. `prefix`: an installation, or a build tree.
void check_new_plugin(const std::string& kind,
                      const Renaming& renamed,
                      const std::vector<TemplateFile>& files,
                      const std::filesystem::path& prefix,
                      const PluginHost& host);

}  // namespace tessera
