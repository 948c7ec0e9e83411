#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// Where a key that has moved is found today: "data.tokenizer.type" gives "tokenizer.type". Nothing
/// for keys that are where they were. Files and checkpoints of earlier versions use the old places.
std::optional<std::string> moved_key(std::string_view path);

}  // namespace tessera
