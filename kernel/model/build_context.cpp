#include "kernel/model/build_context.hpp"

#include <tuple>
#include <utility>

#include "kernel/config/choice.hpp"
#include "tessera/error.hpp"
#include "tessera/io/size_text.hpp"
#include "tessera/random.hpp"

namespace tessera {

ScopedBuild::ScopedBuild(const BuildSettings& settings,
                         ModelParts& parts,
                         int layer,
                         std::string scope,
                         std::string path,
                         std::string type,
                         ChildRows rows)
    : settings_(settings),
      parts_(parts),
      layer_(layer),
      scope_(std::move(scope)),
      path_(std::move(path)),
      type_(std::move(type)),
      rows_(rows) {}

Parameter& ScopedBuild::parameter(const ParameterSpec& spec) {
  const auto declare = [&]() -> Parameter& {
    if (!settings_.locate_errors) return parts_.declare(spec, scope_, layer_);
    try {
      return parts_.declare(spec, scope_, layer_, component());
    } catch (const Error&) {
      rethrow_at(component());
    }
  };
  Parameter& declared = declare();
  if (settings_.stored != nullptr) require_stored(declared.name);
  return declared;
}

void ScopedBuild::require_stored(const std::string& parameter) const {
  constexpr i64 kMoreTensors = 1000, kMoreElements = i64{1} << 24;
  const StoredParameters& stored = *settings_.stored;
  const auto count = static_cast<i64>(parts_.parameters().size());
  const i64 elements = parts_.logical_elements();
  if (count <= stored.tensors + kMoreTensors && elements <= 2 * stored.elements + kMoreElements) {
    return;
  }
  fail_config(
      "{}: [model] is larger by far than checkpoint {}: up to \"{}\" it has {} parameter{} of {} "
      "elements, and the checkpoint has {} of {}; leave its size as it was saved",
      settings_.maker->origin("model", "type"),
      stored.folder,
      parameter,
      count,
      count == 1 ? "" : "s",
      short_count(static_cast<double>(elements)),
      stored.tensors,
      short_count(static_cast<double>(stored.elements)));
}

u64 ScopedBuild::random_site(std::string_view name) {
  return random_key(settings_.seed, fmt::format("{}/{}", scope_, name));
}

Buffer& ScopedBuild::buffer(const BufferSpec& spec) {
  try {
    return parts_.declare(spec, scope_, settings_.main);
  } catch (const Error&) {
    rethrow_at(component());
  }
}

LossTerm ScopedBuild::loss(const LossSpec& spec) {
  try {
    return {parts_.loss(spec, component())};
  } catch (const Error&) {
    rethrow_at(component());
  }
}

Metric ScopedBuild::metric(const MetricSpec& spec) {
  try {
    return {parts_.metric(spec)};
  } catch (const Error&) {
    rethrow_at(component());
  }
}

Counts ScopedBuild::counts(const CountSpec& spec) {
  try {
    return {parts_.counts(spec, scope_)};
  } catch (const Error&) {
    rethrow_at(component());
  }
}

void ScopedBuild::reject(std::string_view key, std::string_view why) const {
  // What the parent gave was written in the parent's table.
  std::string table = path_, at = settings_.maker->origin(table, key);
  if (const auto dot = path_.rfind('.'); at == "default" && dot != std::string::npos) {
    const std::string parent = path_.substr(0, dot);
    const std::string there = settings_.maker->origin(parent, key);
    if (there != "default") std::tie(table, at) = std::tie(parent, there);
  }
  fail_config("{}: [{}] {}: {}", at, table, key, why);
}

std::string ScopedBuild::component() const { return settings_.maker->choice(path_, type_); }

std::shared_ptr<void> ScopedBuild::make_child(std::string_view kind,
                                              std::string_view name,
                                              const std::string& type,
                                              const std::string& path,
                                              const Given& given,
                                              ChildRows rows) {
  std::string scope = scope_;
  if (!name.empty()) scope = scope.empty() ? std::string(name) : fmt::format("{}.{}", scope, name);
  if (rows_ == ChildRows::own) rows = rows_;  // so are those of its children
  ScopedBuild child(settings_, parts_, layer_, std::move(scope), path, type, rows);
  return settings_.maker->make(kind, type, path, given, static_cast<BuildContext*>(&child));
}

}  // namespace tessera
