#include "kernel/model/build_context.hpp"

#include <utility>

#include "tessera/error.hpp"
#include "tessera/random.hpp"

namespace tessera {

ScopedBuild::ScopedBuild(const BuildSettings& settings,
                         ModelParts& parts,
                         int layer,
                         std::string scope,
                         std::string path)
    : settings_(settings),
      parts_(parts),
      layer_(layer),
      scope_(std::move(scope)),
      path_(std::move(path)) {}

Parameter& ScopedBuild::parameter(const ParameterSpec& spec) {
  return parts_.declare(spec, scope_, layer_);
}

u64 ScopedBuild::random_site(std::string_view name) {
  return random_key(settings_.seed, fmt::format("{}/{}", scope_, name));
}

void ScopedBuild::reject(std::string_view key, std::string_view why) const {
  fail_config("{}: [{}] {}: {}", settings_.maker->origin(path_, key), path_, key, why);
}

std::shared_ptr<void> ScopedBuild::make_child(std::string_view kind,
                                              std::string_view name,
                                              const std::string& type,
                                              const std::string& path,
                                              const Given& given) {
  std::string scope = scope_;
  if (!name.empty()) scope = scope.empty() ? std::string(name) : fmt::format("{}.{}", scope, name);
  ScopedBuild child(settings_, parts_, layer_, std::move(scope), path);
  return settings_.maker->make(kind, type, path, given, static_cast<BuildContext*>(&child));
}

}  // namespace tessera
