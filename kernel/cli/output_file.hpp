#pragma once
#include <string>
#include <string_view>

namespace tessera {

/// Writes a picture or a report that was asked for. Throws Error naming the file.
void write_output_file(const std::string& file, std::string_view text);

}  // namespace tessera
