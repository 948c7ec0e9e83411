#pragma once
#include <string>

#include "tessera/base/api.hpp"

// Numbers with the digits that a reader needs, the same wherever the program shows them.
namespace tessera {

/// Bytes: "512 B", "1.23 MiB", "12.3 GiB".
TESSERA_API std::string size_text(double bytes);

/// Things that are counted: "512", "1.23 M", "12.3 G".
TESSERA_API std::string short_count(double count);

}  // namespace tessera
