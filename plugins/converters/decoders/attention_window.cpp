// Layers that attend to the last positions only (Beltagy et al. 2020), which are not there yet.
#include <fmt/format.h>

#include <algorithm>

#include "family_config.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

// What transformers takes where the keys are absent.
constexpr i64 kUsualWindow = 4096, kUsualFirstLayer = 28;
constexpr const char *kWindow = "sliding_window", *kTypes = "layer_types";

// Does any layer have the window?
bool has_window(FamilyConfig& config, i64 layers) {
  Claims& theirs = config.claims();
  const Windows windows = config.family().windows;
  if (windows == Windows::given) return theirs.find(kWindow) != nullptr;
  if (windows == Windows::used) return config.flag("use_sliding_window");
  const bool every = windows == Windows::every;
  const bool used = every || config.flag("use_sliding_window");
  const i64 first = every ? 0 : config.integer("max_window_layers", kUsualFirstLayer);
  const Value* types = theirs.find(kTypes);
  if (types == nullptr) return used && first < layers;
  const auto* list = std::get_if<Value::Array>(&types->data);
  if (list == nullptr) {
    fail_config(
        "{}: \"{}\" is {}, which is no list", theirs.file(), kTypes, written_plain(types->text()));
  }
  const Value full = "full_attention";
  const auto other = std::ranges::find_if(*list, [&](const Value& type) { return type != full; });
  if (other != list->end()) {
    fail_config("{} has {} with {}; only {} is supported",
                theirs.file(),
                kTypes,
                written_plain(other->text()),
                full.text());
  }
  if (static_cast<i64>(list->size()) != layers) {
    fail_config(
        "{} has num_hidden_layers = {} and {} of {}", theirs.file(), layers, kTypes, list->size());
  }
  return every;  // whose layers have no types in transformers
}

}  // namespace

void require_full_attention(FamilyConfig& config) {
  if (config.family().windows == Windows::none) return;
  Claims& theirs = config.claims();
  const i64 positions = config.integer("max_position_embeddings");
  const Value* said = theirs.find(kWindow);  // harmless where no layer has it
  if (!has_window(config, config.integer("num_hidden_layers"))) return;
  if (said == nullptr && config.is_null(kWindow)) return;
  const i64 window = said == nullptr ? kUsualWindow : theirs.integer(kWindow);
  if (window >= positions) return;
  fail_config(
      "{} has {}{}; only null, or at least max_position_embeddings = {}, is supported",
      theirs.file(),
      said == nullptr ? fmt::format("no {}, which means ", kWindow) : fmt::format("{} = ", kWindow),
      window,
      positions);
}

}  // namespace tessera
