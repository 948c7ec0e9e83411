#include "kernel/checkpoint/stored_config.hpp"

#include <algorithm>
#include <system_error>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

// Plugin folders that the stored configuration names and that were not searched.
std::string left_out(const Config& config, const PluginHost& plugins) {
  std::string text;
  for (const fs::path& folder : config.stored_plugin_path()) {
    const bool searched = std::ranges::any_of(plugins.search(), [&](const fs::path& known) {
      std::error_code unknown;
      return fs::equivalent(folder, known, unknown);
    });
    if (!searched) text += (text.empty() ? "" : ", ") + written_path(folder);
  }
  return text;
}

StoredParameters parameters_in(const fs::path& folder, const CheckpointIndex& index) {
  StoredParameters stored{written_path(folder)};
  for (const auto& [name, tensor] : index.tensors) {
    if (name.find('/') != std::string::npos) continue;  // the optimizer's state
    ++stored.tensors;
    stored.elements += Rectangle{{}, tensor.shape}.elements();
  }
  return stored;
}

}  // namespace

Config stored_config(const fs::path& folder,
                     const CheckpointIndex& index,
                     const std::vector<std::string>& sets,
                     const ConfigText& command) {
  return Config::stored(index.info.config, (folder / kIndexName).string(), sets, command);
}

Resolved resolve_stored(const fs::path& folder,
                        const CheckpointIndex& index,
                        const Config& config,
                        const PluginHost& plugins) {
  const auto resolve_held = [&] {
    Resolved resolved = resolve(config, plugins);
    resolved.stored = parameters_in(folder, index);
    return resolved;
  };
  const std::string folders = left_out(config, plugins);
  if (folders.empty()) return resolve_held();
  const std::string note = fmt::format(
      "{}: [plugins] path: nothing is loaded from {}, since a checkpoint may be somebody else's; "
      "where you trust it, give the folder with --path or TESSERA_PLUGIN_PATH",
      config.tree().find("plugins.path")->at.text(),
      folders);
  try {
    Resolved resolved = resolve_held();
    log_warning("{}", note);
    return resolved;
  } catch (const ConfigError& error) {
    fail_config("{}\n{}", error.what(), note);
  }
}

}  // namespace tessera
