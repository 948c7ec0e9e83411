#include "kernel/plugin/host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "kernel/config/choice.hpp"
#include "kernel/plugin/collector.hpp"
#include "kernel/plugin/find_units.hpp"
#include "kernel/plugin/library.hpp"
#include "kernel/plugin/load_watch.hpp"
#include "kernel/plugin/named_kernel.hpp"
#include "sdk/src/shared/component_call.hpp"
#include "tessera/device/doing.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

std::vector<fs::path> libraries_in(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    fail_config("there is no plugin folder {}", fs::absolute(folder).string());
  }
  std::vector<fs::path> files;
  const fs::directory_iterator entries(folder, error);
  if (error)
    fail_config("cannot read the plugin folder {}: {}", folder.string(), SystemError(error));
  for (const auto& entry : entries) {
    if (entry.path().extension() == ".so") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string place(const PluginOrigin& origin) {
  return origin.builtin() ? "the kernel" : origin.path.string();
}

[[noreturn]] void fail_duplicate(std::string_view what,
                                 const PluginOrigin& first,
                                 const PluginOrigin& second) {
  fail_config("plugin error: {} comes from both {} and {}; remove one of the two files",
              what,
              place(first),
              place(second));
}

}  // namespace

PluginHost::PluginHost(std::vector<fs::path> search) : search_(std::move(search)) {
  std::map<std::string, fs::path> seen;
  std::set<fs::path> real;
  for (const fs::path& folder : search_) {
    for (const fs::path& file : libraries_in(folder)) {
      const auto [first, is_new] = seen.emplace(file.filename().string(), file);
      std::error_code error;
      // One file under two names, or in a folder that is listed twice, is one library.
      const fs::path canonical = fs::canonical(file, error);
      const bool again = !error && !real.insert(canonical).second;
      if (again) continue;
      if (is_new) {
        load(file);
      } else {
        shadowed_.push_back(
            fmt::format("{} is not used: {} comes first", file.string(), first->second.string()));
      }
    }
  }
}

PluginHost::~PluginHost() = default;

void PluginHost::load(const fs::path& file) {
  const LoadWatch watch(file);
  Collector collected;
  auto origin = std::make_unique<PluginOrigin>();
  try {
    const Library library = load_library(file);
    const PluginDescriptor& d = *library.descriptor;
    *origin = {d.name, d.version, d.summary, library.path, d.abi_stamp, library.hash};
    call_plugin(*origin, "the registration", "", [&] { d.register_all(collected); });
  } catch (const Error& error) {
    failures_.emplace_back(error.what());
    if (error.resource() != Resource::none) short_of_ = error.resource();
    return;
  }
  keep(std::move(collected), *origin);
  plugins_.push_back(std::move(origin));
}

void PluginHost::add_builtin(void (*register_all)(Registrar&)) {
  Collector collected;
  register_all(collected);
  keep(std::move(collected), kernel_);
}

void PluginHost::keep(Collector&& collected, const PluginOrigin& origin) {
  for (ComponentInfo& info : collected.components) {
    const std::string name = info.kind + "/" + info.type;
    auto& of_kind = components_[info.kind];
    const std::string type = info.type;
    const auto [at, is_new] = of_kind.try_emplace(type, Component{std::move(info), &origin});
    if (!is_new) fail_duplicate(name, *at->second.origin, origin);
  }
  for (DeviceKernel& entry : collected.kernels) {
    const std::string operation = entry.kernel.operation;
    const auto [at, is_new] =
        kernels_[entry.device].try_emplace(operation, Operation{std::move(entry.kernel), &origin});
    if (!is_new) {
      fail_duplicate(fmt::format("the kernel of {} on {}", operation, entry.device),
                     *at->second.origin,
                     origin);
    }
  }
}

const PluginHost::Component* PluginHost::component(std::string_view kind,
                                                   std::string_view type) const {
  const auto of_kind = components_.find(kind);
  if (of_kind == components_.end()) return nullptr;
  const auto at = of_kind->second.find(type);
  return at == of_kind->second.end() ? nullptr : &at->second;
}

const ComponentInfo* PluginHost::find(std::string_view kind, std::string_view type) const {
  const Component* found = component(kind, type);
  return found == nullptr ? nullptr : &found->info;
}

std::vector<const ComponentInfo*> PluginHost::of_kind(std::string_view kind) const {
  std::vector<const ComponentInfo*> all;
  const auto of_kind = components_.find(kind);
  if (of_kind == components_.end()) return all;
  for (const auto& [type, component] : of_kind->second) all.push_back(&component.info);
  return all;
}

DeviceUnits PluginHost::units(const ComponentInfo& device) const {
  constexpr std::chrono::milliseconds kPatience(30000);  // the first use of many GPUs takes a while
  const std::lock_guard lock(asking_);
  const auto known = units_.find(device.type);
  if (known != units_.end()) return known->second;
  return units_.emplace(device.type, find_units(device, kPatience)).first->second;
}

std::vector<std::string> PluginHost::kinds() const {
  std::vector<std::string> names;
  for (const auto& [kind, of_kind] : components_) names.push_back(kind);
  return names;
}

const PluginOrigin* PluginHost::origin_of(std::string_view kind, std::string_view type) const {
  const Component* found = component(kind, type);
  return found == nullptr ? nullptr : found->origin;
}

std::string PluginHost::library_of(std::string_view kind, std::string_view type) const {
  const PluginOrigin* origin = origin_of(kind, type);
  return origin == nullptr ? std::string() : origin->text();
}

namespace {

std::shared_ptr<const Identity> identity_of(const ComponentInfo& info,
                                            const PluginOrigin& origin,
                                            const ConfigNode& node) {
  auto identity = std::make_shared<Identity>();
  identity->kind = info.kind;
  identity->name = info.type;
  identity->text = fmt::format("{}/{}", info.kind, info.type);
  if (!origin.builtin()) {
    identity->plugin = fmt::format("{} {}", origin.name, origin.version);
    identity->library = origin.path.string();
    identity->text += " of plugin " + identity->plugin;
  }
  const std::string at = node.origin("type");
  identity->place = fmt::format("{} {}: [{}]", at == "default" ? "by" : "at", at, node.path());
  identity->choice = choice_text(at, node.path(), info.type);
  return identity;
}

}  // namespace

std::shared_ptr<void> PluginHost::make(std::string_view kind,
                                       std::string_view type,
                                       const ConfigNode& node,
                                       const Given& given,
                                       void* arguments) const {
  const Component* found = component(kind, type);
  if (found == nullptr) {
    std::vector<std::string> known;
    for (const ComponentInfo* info : of_kind(kind)) {
      known.push_back(fmt::format("{} ({})", info->type, library_of(kind, info->type)));
    }
    fail_config("there is no {} {}; known are: {}{}",
                kind,
                quote(type),
                fmt::join(known, ", "),
                not_loaded());
  }
  const std::string name = fmt::format("{}/{}", kind, type);
  const auto identity = identity_of(found->info, *found->origin, node);
  std::shared_ptr<void> made = call_plugin(*found->origin, name, identity->place, [&] {
    const Doing doing("the constructor of", name);
    return found->info.make(node, given, arguments);
  });
  require(made != nullptr, "{} ({}) made nothing", name, found->origin->text());
  if (found->info.identified == nullptr) return made;
  found->info.identified(made.get())->identify(identity);
  void* const component = made.get();
  return {component, [identity, made = std::move(made)](void*) mutable {
            const ComponentCall now(identity.get(), "destructor");
            made.reset();
          }};
}

std::vector<Kernel> PluginHost::kernels(std::string_view device,
                                        std::string_view memory_kind) const {
  std::map<std::string, Kernel> found;  // the device's own come first and stay
  for (const std::string_view target : {device, memory_kind}) {
    const auto of_target = kernels_.find(target);
    if (of_target == kernels_.end()) continue;
    for (const auto& [operation, entry] : of_target->second) {
      found.emplace(operation, named_kernel(entry.kernel, *entry.origin));
    }
  }
  std::vector<Kernel> all;
  all.reserve(found.size());
  for (auto& [operation, kernel] : found) all.push_back(std::move(kernel));
  return all;
}

std::vector<PluginHost::Fingerprint> PluginHost::fingerprint() const {
  std::vector<Fingerprint> all;
  for (const auto& plugin : plugins_) {
    all.push_back({plugin->name, plugin->version, plugin->stamp, plugin->hash});
  }
  std::sort(all.begin(), all.end(), [](const Fingerprint& a, const Fingerprint& b) {
    return std::tie(a.plugin, a.version, a.hash) < std::tie(b.plugin, b.version, b.hash);
  });
  return all;
}

}  // namespace tessera
