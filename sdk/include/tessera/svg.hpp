#pragma once
#include <string>
#include <string_view>

#include "tessera/api.hpp"

namespace tessera {

/// Text as it stands between the tags of an SVG file: &, < and > escaped, control characters gone.
TESSERA_API std::string svg_text(std::string_view text);

}  // namespace tessera
