#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"

namespace tessera {

/// What somebody else wrote (a user, a file, a plugin), made fit to be shown. In none of these does
/// a character remain that a terminal would act on (`acts_on_terminal`), and none is a page long:
/// what is longer is cut and ends in "...". Thread-safe.

/// A word for an error, on one line and in quotes, as TOML writes it.
TESSERA_API std::string quote(std::string_view word, std::size_t most = 80);

/// The same without quotes, for what is shown as it stands: a path, a variable's value. In it only
/// control characters are escaped, and bytes that are no UTF-8 (\xff).
TESSERA_API std::string written_plain(std::string_view text, std::size_t most = 80);

/// A path, which may hold anything but a zero byte.
TESSERA_API std::string written_path(const std::filesystem::path& path);

/// Lines of text: control characters other than tabs and line feeds become "?", and a line keeps at
/// most `most` bytes. Errors and log lines go through it.
TESSERA_API std::string readable(std::string_view text, std::size_t most = 2000);

}  // namespace tessera
