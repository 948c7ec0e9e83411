#include "kernel/plugin/library.hpp"

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "kernel/plugin/abi.hpp"
#include "kernel/plugin/crash_watch.hpp"
#include "kernel/plugin/library_file.hpp"
#include "sdk/src/shared/floating_point_guard.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

constexpr std::string_view kStampPrefix = "tessera_abi_";

// Throws unless the library was built with the host's headers, and with a compiler and flags that
// agree. `fields` may be empty: not known.
void require_fit(const std::filesystem::path& path,
                 std::string_view stamp,
                 std::string_view fields) {
  const std::string difference =
      fields.empty() ? std::string() : abi_difference(fields, host_abi_fields());
  if (stamp != host_abi_stamp()) {
    const std::string differs =
        difference.empty() ? "Rebuild it" : "differs in: " + difference + ". Rebuild it";
    fail("{} was built for SDK ABI {}, this host has {}\n  {}: cmake --build <plugin build dir>",
         written_path(path),
         stamp,
         host_abi_stamp(),
         differs);
  }
  if (!difference.empty()) {
    fail(
        "{} was built with other compiler flags than this tessera\n  differs in: {}. Give it the "
        "same compiler and flags, and build it again",
        written_path(path),
        difference);
  }
}

// Refuses what can be refused without running anything of the library.
void check_symbols(const LibraryFile& file) {
  const auto& symbols = file.symbols;
  if (!file.has_symbols) return;  // no section headers: the descriptor will tell
  if (std::find(symbols.begin(), symbols.end(), "tessera_plugin") == symbols.end()) {
    fail("{}: is a shared library, but not a Tessera plugin (it exports no tessera_plugin)",
         written_path(file.path));
  }
  std::string stamp;
  for (std::string_view symbol : symbols) {
    if (!symbol.starts_with(kStampPrefix)) continue;
    stamp = symbol.substr(kStampPrefix.size());
    if (stamp == host_abi_stamp()) break;
  }
  if (!stamp.empty()) require_fit(file.path, stamp, file.abi_fields);
}

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return text ? text.get() : symbol;
}

// dlerror's text, as a sentence about `path`. "cannot open shared object file" means a dependency
// here, because the file itself was read before.
std::string explain(const std::filesystem::path& path, std::string_view error) {
  // Boost puts "boost::dll::shared_library::load() failed (dlerror system message: " around it.
  if (const auto at = error.find("message: "); at != std::string_view::npos) {
    error.remove_prefix(at + 9);
  }
  if (const auto end = error.rfind("): "); end != std::string_view::npos) {
    error = error.substr(0, end);
  }
  constexpr std::string_view kMissing = ": cannot open shared object file: No such file";
  if (const auto at = error.find(kMissing); at != std::string_view::npos) {
    return fmt::format("{}: needs {}, which was not found (ldd {})",
                       written_path(path),
                       error.substr(0, at),
                       written_path(path));
  }
  constexpr std::string_view kUndefined = "undefined symbol: ";
  if (const auto at = error.find(kUndefined); at != std::string_view::npos) {
    const std::string_view rest = error.substr(at + kUndefined.size());
    return fmt::format("{}: needs {}, which no library defines; rebuild it against this SDK",
                       written_path(path),
                       demangled(std::string(rest.substr(0, rest.find_first_of(" ,\t")))));
  }
  return fmt::format("{}: cannot be loaded: {}", written_path(path), error);
}

Error load_error(const std::filesystem::path& path, std::string_view error) {
  Error made(explain(path, error));
  if (error.find("Too many open files") != std::string_view::npos) made.add(Resource::open_files);
  for (const std::string_view words :
       {"Cannot allocate memory", "cannot allocate memory", "failed to map segment"}) {
    if (error.find(words) != std::string_view::npos) made.add(Resource::memory);
  }
  return made;
}

void check_descriptor(const std::filesystem::path& path, const PluginDescriptor& d) {
  if (d.magic != kPluginMagic || d.bytes != sizeof(PluginDescriptor)) {
    fail(
        "{}: its tessera_plugin is not the descriptor of this SDK ({:#x}, {} bytes; expected "
        "{:#x}, {} bytes): define it with TESSERA_PLUGIN",
        written_path(path),
        d.magic,
        d.bytes,
        kPluginMagic,
        sizeof(PluginDescriptor));
  }
  require_fit(path,
              d.abi_stamp == nullptr ? "none" : d.abi_stamp,
              d.abi_fields == nullptr ? "" : d.abi_fields);
  if (d.name == nullptr || d.version == nullptr || d.summary == nullptr ||
      d.register_all == nullptr) {
    fail("{}: its descriptor lacks name, version, summary or register function",
         written_path(path));
  }
}

}  // namespace

Library load_library(const std::filesystem::path& path) {
  const std::filesystem::path absolute = std::filesystem::absolute(path).lexically_normal();
  const LibraryFile file = read_library_file(absolute);
  check_symbols(file);

  // RTLD_NODELETE makes "loaded until exit" the system's promise: handles may go.
  namespace dll = boost::dll;
  const auto mode = static_cast<dll::load_mode::type>(dll::load_mode::rtld_now |
                                                      dll::load_mode::rtld_local | RTLD_NODELETE);
  dll::shared_library library;
  try {
    const FloatingPointGuard guard(FloatingPointGuard::During::load, absolute.native(), "");
    library.load(absolute, mode);
  } catch (const std::exception& error) {
    throw load_error(absolute, error.what());
  }
  if (!library.has("tessera_plugin")) {
    fail("{}: is a shared library, but not a Tessera plugin (it exports no tessera_plugin)",
         absolute.string());
  }
  const auto& descriptor = library.get<const PluginDescriptor>("tessera_plugin");
  check_descriptor(absolute, descriptor);
  CrashWatch::add_plugin(absolute.string());
  return {absolute, file.hash, &descriptor};
}

}  // namespace tessera
