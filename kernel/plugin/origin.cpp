#include "kernel/plugin/origin.hpp"

#include "tessera/error.hpp"
#include "tessera/peer_error.hpp"

namespace tessera {
namespace {

struct NamedError : Error, NamesItsComponent {
  using Error::Error;
};
struct NamedConfigError : ConfigError, NamesItsComponent {
  using ConfigError::ConfigError;
};

}  // namespace

std::string PluginOrigin::text() const {
  return builtin() ? name : fmt::format("{} {}", path.filename().string(), version);
}

void rethrow_from_plugin(const PluginOrigin& origin,
                         std::string_view doing,
                         std::string_view place) {
  if (origin.builtin()) throw;
  // Texts are copied: what() of a foreign exception lives in the plugin.
  const auto text = [&](std::string_view what) {
    return fmt::format("{}\n  in {} of plugin {} {} ({}){}{}",
                       what,
                       doing,
                       origin.name,
                       origin.version,
                       origin.path.string(),
                       place.empty() ? "" : ", configured ",
                       place);
  };
  // An error that was named and then told with more, such as its place in the configuration.
  const auto has_name = [](const Error& error) {
    const std::string_view what = error.what();
    return what.find("\n  in ") != what.npos && what.find(" of plugin ") != what.npos;
  };
  try {
    throw;
  } catch (const NamesItsComponent&) {
    throw;
  } catch (const ConfigError& error) {
    if (has_name(error)) throw;
    throw NamedConfigError(text(error.what()));
  } catch (const Error& error) {
    if (has_name(error) || blames_peer(error.exit_code())) throw;  // it only waited
    throw NamedError(text(error.what()), error.exit_code());
  } catch (const std::exception& error) {
    throw NamedError(text(error.what()));
  } catch (...) {
    throw NamedError(text(kForeignException));
  }
}

}  // namespace tessera
