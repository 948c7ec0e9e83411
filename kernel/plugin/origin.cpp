#include "kernel/plugin/origin.hpp"

#include "tessera/error.hpp"

namespace tessera {
std::string PluginOrigin::text() const {
  return builtin() ? name : fmt::format("{} {}", path.filename().string(), version);
}

void rethrow_from_plugin(const PluginOrigin& origin,
                         std::string_view doing,
                         std::string_view place) {
  if (origin.builtin()) throw;
  // A copy is thrown: type and text of a foreign exception live in the plugin.
  Error error = error_in_flight();
  const bool named = error.has(ErrorFrame::Kind::component) || error.has(ErrorFrame::Kind::place);
  if (named || blames_peer(error.kind())) throw;  // the last only waited
  error.add(ErrorFrame::Kind::component,
            fmt::format("{} of plugin {} {} ({}){}{}",
                        doing,
                        origin.name,
                        origin.version,
                        origin.path.string(),
                        place.empty() ? "" : ", configured ",
                        place));
  error.raise();
}

}  // namespace tessera
