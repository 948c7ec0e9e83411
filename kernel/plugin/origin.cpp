#include "kernel/plugin/origin.hpp"

#include "tessera/error.hpp"

namespace tessera {
namespace {

// A parent component makes its children through the host: the innermost plugin is the one to name.
struct Named {};
struct NamedError : Error, Named {
  using Error::Error;
};
struct NamedConfigError : ConfigError, Named {
  using ConfigError::ConfigError;
};

}  // namespace

std::string PluginOrigin::text() const {
  return builtin() ? name : fmt::format("{} {}", path.filename().string(), version);
}

void rethrow_from_plugin(const PluginOrigin& origin, std::string_view doing) {
  if (origin.builtin()) throw;
  // Texts are copied: what() of a foreign exception lives in the plugin.
  const auto text = [&](std::string_view what) {
    return fmt::format("{}\n  in {} of plugin {} {} ({})",
                       what,
                       doing,
                       origin.name,
                       origin.version,
                       origin.path.string());
  };
  try {
    throw;
  } catch (const Named&) {
    throw;
  } catch (const ConfigError& error) {
    throw NamedConfigError(text(error.what()));
  } catch (const Error& error) {
    throw NamedError(text(error.what()), error.exit_code());
  } catch (const std::exception& error) {
    throw NamedError(text(error.what()));
  } catch (...) {
    throw NamedError(text("an exception that is no std::exception"));
  }
}

}  // namespace tessera
