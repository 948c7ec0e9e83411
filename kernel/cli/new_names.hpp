#pragma once
#include <string>

namespace tessera {

// The names that `tessera new` gives a copy of a template: which are allowed, and how they replace
// those of the template.

/// Gives the plugin of a template another name: my_norm in names of files, targets and components,
/// MyNorm in those of classes.
struct Renaming {
  std::string from, to;
  std::string operator()(std::string text) const;
};

/// Throws ConfigError saying why no plugin can have this name.
void check_plugin_name(const std::string& name);

}  // namespace tessera
