#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/config/catalog.hpp"
#include "kernel/plugin/origin.hpp"
#include "tessera/operation.hpp"

namespace tessera {

class Collector;

/// All components that a run can use: those of the plugins found in the search path, and those that
/// the kernel brings. Loads every library once and never unloads one. Reading is thread-safe once
/// construction and add_builtin are done, so ranks that are threads share one host.
class PluginHost : public Catalog {
 public:
  /// Loads every `*.so` of these folders; of files of one name, the first. A library that cannot
  /// be loaded is kept in load_failures; one that crashes while it is loaded ends the process. Two
  /// that bring the same component are a ConfigError.
  explicit PluginHost(std::vector<std::filesystem::path> search = {});
  ~PluginHost() override;
  PluginHost(const PluginHost&) = delete;
  PluginHost& operator=(const PluginHost&) = delete;

  /// Registers components of the kernel itself, through the same door.
  void add_builtin(void (*register_all)(Registrar&));

  const ComponentInfo* find(std::string_view kind, std::string_view type) const override;
  std::vector<const ComponentInfo*> of_kind(std::string_view kind) const override;
  /// Asks once, in a child process (find_units.hpp).
  DeviceUnits units(const ComponentInfo& device) const override;
  std::vector<std::string> load_failures() const override { return failures_; }
  Resource short_of() const override { return short_of_; }
  std::string library_of(std::string_view kind, std::string_view type) const override;

  /// The kinds that have components, by name.
  std::vector<std::string> kinds() const;
  /// Where a component comes from; nullptr when there is none.
  const PluginOrigin* origin_of(std::string_view kind, std::string_view type) const;

  /// Makes a component of kind K from its table. Errors of the plugin are thrown with its name.
  template <class K>
  std::shared_ptr<K> make(std::string_view type,
                          const ConfigNode& node,
                          const Given& given,
                          typename K::Arguments& arguments) const {
    std::shared_ptr<void> made = make(K::kKind, type, node, given, &arguments);
    return {made, static_cast<K*>(made.get())};
  }
  /// The same with the kind as text: `arguments` is the kind's Arguments*, the result its K*.
  std::shared_ptr<void> make(std::string_view kind,
                             std::string_view type,
                             const ConfigNode& node,
                             const Given& given,
                             void* arguments) const;

  /// Kernels that plugins registered for the device of this name or for this kind of memory; where
  /// there are both for one operation, the device's own.
  std::vector<Kernel> kernels(std::string_view device, std::string_view memory_kind) const;

  /// Loaded plugins, in the order of loading.
  const std::vector<std::unique_ptr<PluginOrigin>>& plugins() const { return plugins_; }
  /// "dir/x.so is not used: dir2/x.so comes first"
  const std::vector<std::string>& shadowed() const { return shadowed_; }
  const std::vector<std::filesystem::path>& search() const { return search_; }

  /// What ranks compare before they start.
  struct Fingerprint {
    std::string plugin, version, stamp;
    u64 hash = 0;  ///< of the file
    bool operator==(const Fingerprint&) const = default;
  };
  /// Fingerprints of all loaded plugins, sorted: equal on all ranks that load the same files.
  std::vector<Fingerprint> fingerprint() const;

 private:
  struct Component {
    ComponentInfo info;
    const PluginOrigin* origin = nullptr;
  };
  struct Operation {
    Kernel kernel;
    const PluginOrigin* origin = nullptr;
  };
  template <class T>
  using ByName = std::map<std::string, T, std::less<>>;

  void load(const std::filesystem::path& file);
  void keep(Collector&& collected, const PluginOrigin& origin);
  const Component* component(std::string_view kind, std::string_view type) const;

  std::vector<std::filesystem::path> search_;
  std::vector<std::unique_ptr<PluginOrigin>> plugins_;
  PluginOrigin kernel_;
  ByName<ByName<Component>> components_;  // by kind, by type
  ByName<ByName<Operation>> kernels_;     // by device or kind of memory, by operation
  std::vector<std::string> failures_, shadowed_;
  Resource short_of_ = Resource::none;
  mutable std::mutex asking_;
  mutable ByName<DeviceUnits> units_;  // by device, of those that were asked for
};

}  // namespace tessera
