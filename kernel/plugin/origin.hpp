#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "sdk/src/shared/floating_point_guard.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// Where a component comes from.
struct PluginOrigin {
  std::string name = "kernel", version, summary;
  std::filesystem::path path;  ///< empty: the kernel itself
  std::string stamp;
  u64 hash = 0;  ///< xxHash of the file
  bool builtin() const { return path.empty(); }
  /// "libtessera_moe.so 0.3", "kernel"
  std::string text() const;
};

/// Throws the exception in flight again as an Error of the host's, with a frame that names the
/// plugin. One that has such a frame or a place already goes on unchanged, since a component makes
/// its children through the host and the innermost is the one to name; so does one of the kernel's
/// own code, and one that another rank is to blame for. `doing`: "layer/moe", "its registration".
/// `place`: where it is configured, "at run.toml:12:8: [lr]"; empty: the error says that, or nobody
/// configures it.
[[noreturn]] void rethrow_from_plugin(const PluginOrigin& origin,
                                      std::string_view doing,
                                      std::string_view place = {});

/// Every call into a plugin's factories and registration goes through here.
template <class F>
decltype(auto) call_plugin(const PluginOrigin& origin,
                           std::string_view doing,
                           std::string_view place,
                           F&& f) {
  const FloatingPointGuard guard(FloatingPointGuard::During::call, origin.name, doing);
  try {
    return std::forward<F>(f)();
  } catch (...) {
    rethrow_from_plugin(origin, doing, place);
  }
}

}  // namespace tessera
