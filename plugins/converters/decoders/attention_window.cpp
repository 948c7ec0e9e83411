// Layers that attend to the last positions only (Beltagy et al. 2020).
#include "attention_window.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "layer_kinds.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

// What transformers takes where the keys are absent.
constexpr i64 kUsualWindow = 4096, kUsualFirstLayer = 28;
constexpr const char *kWindow = "sliding_window", *kUsesWindow = "use_sliding_window",
                     *kLayerTypes = "layer_types", *kFirstWindow = "max_window_layers";
constexpr const char *kFullType = "full_attention", *kSlidingType = "sliding_attention";
constexpr const char *kFullKind = "full", *kWindowKind = "window";
constexpr const char* kOurWindow = ".attention.window";

std::optional<i64> window_in(FamilyConfig& config) {
  Claims& theirs = config.claims();
  const Windows windows = config.family().windows;
  const Value* said = theirs.find(kWindow);
  if (windows == Windows::optional || windows == Windows::used) {
    if (!config.flag(kUsesWindow)) return std::nullopt;  // harmless then
  }
  if (said != nullptr) {
    const i64 window = theirs.integer(kWindow);
    if (window < 1) {
      fail_config("{} has {} = {}; it is null, or at least 1", theirs.file(), kWindow, window);
    }
    return window;
  }
  if (windows == Windows::given || config.is_null(kWindow)) return std::nullopt;
  return kUsualWindow;
}

// Which layers are of the second type, by the list of all layers' types.
std::vector<bool> typed_layers(FamilyConfig& config, const Value& types, i64 layers, bool window) {
  const std::string& file = config.claims().file();
  const auto* list = std::get_if<Value::Array>(&types.data);
  if (list == nullptr) {
    fail_config(
        "{}: \"{}\" is {}, which is no list", file, kLayerTypes, written_plain(types.text()));
  }
  const bool some = config.family().windows == Windows::optional;
  std::vector<bool> found;
  for (const Value& type : *list) {
    found.push_back(some && type == Value(kSlidingType));
    if (found.back() || type == Value(kFullType)) continue;
    fail_config("{} has {} with {}; only \"{}\"{} supported",
                file,
                kLayerTypes,
                written_plain(type.text()),
                kFullType,
                some ? fmt::format(" and \"{}\" are", kSlidingType) : " is");
  }
  if (static_cast<i64>(list->size()) != layers) {
    fail_config(
        "{} has num_hidden_layers = {} and {} of {}", file, layers, kLayerTypes, list->size());
  }
  if (!window && std::ranges::find(found, true) != found.end()) {
    fail_config("{} has {} with \"{}\", which needs {} = true and a {}",
                file,
                kLayerTypes,
                kSlidingType,
                kUsesWindow,
                kWindow);
  }
  return found;
}

// Which layers have the window, if there is one.
std::vector<bool> layers_in(FamilyConfig& config, bool window) {
  const i64 layers = config.integer("num_hidden_layers");
  const Windows windows = config.family().windows;
  const bool some = windows == Windows::optional;
  const i64 first = some ? config.integer(kFirstWindow, kUsualFirstLayer) : 0;
  std::vector<bool> found;
  for (i64 i = 0; i < layers; ++i) found.push_back(i >= first);
  if (!some && windows != Windows::every) return found;
  const Value* types = config.claims().find(kLayerTypes);
  if (types == nullptr) return found;
  const std::vector<bool> typed = typed_layers(config, *types, layers, window);
  return some ? typed : found;  // to transformers, layers of the others have no types
}

// "none" too where no position is outside of it.
std::optional<i64> window_of(const ModelKeys& ours, const std::string& block) {
  const Value* value = ours.find(block + kOurWindow);
  const auto* window = value == nullptr ? nullptr : std::get_if<i64>(&value->data);
  if (window == nullptr || *window >= ours.integer("model.positions")) return std::nullopt;
  return *window;
}

}  // namespace

Settings windows_to_ours(FamilyConfig& config) {
  if (config.family().windows == Windows::none) return {};
  const std::optional<i64> window = window_in(config);
  const std::vector<bool> layers = layers_in(config, window.has_value());
  const bool any = std::ranges::find(layers, true) != layers.end();
  if (!window || !any || *window >= config.integer("max_position_embeddings")) return {};
  if (std::ranges::find(layers, false) == layers.end()) {
    return {{std::string("model.block") + kOurWindow, *window}};
  }
  return {{"model.pattern", pattern_of(layers, kWindowKind, kFullKind)},
          {table_of(kWindowKind) + kOurWindow, *window},
          {table_of(kFullKind) + kOurWindow, "none"}};
}

void windows_to_theirs(const ModelKeys& ours,
                       const std::vector<std::string>& blocks,
                       const Family& family,
                       Settings& theirs) {
  const Windows windows = family.windows;
  std::optional<std::string> with, without;  // the first layer's
  Value::Array types;
  for (const std::string& block : blocks) {
    const bool window = window_of(ours, block).has_value();
    types.emplace_back(window ? kSlidingType : kFullType);
    std::optional<std::string>& first = window ? with : without;
    if (!first) first = block + kOurWindow;
    if (window) ours.same({*with, block + kOurWindow});
  }
  if (!with) {
    if (windows == Windows::every) theirs[null_key(kWindow)] = true;
    return;
  }
  if (windows == Windows::none) ours.only(*with, "none");
  if (without && windows != Windows::optional) ours.same({*without, *with});
  theirs[kWindow] = ours.at(*with);
  if (windows == Windows::used || windows == Windows::optional) theirs[kUsesWindow] = true;
  if (windows != Windows::optional) return;
  const auto first = std::ranges::find(types, Value(kSlidingType));
  theirs[kFirstWindow] = static_cast<i64>(first - types.begin());
  theirs[kLayerTypes] = types;
}

}  // namespace tessera
