#pragma once
#include <filesystem>

#include "model_file.hpp"

namespace tessera {

/// Throws ConfigError where added_tokens.json or tokenizer_config.json of the folder gives a text
/// an id that it has not in the model: other programs would make it a token.
void require_nothing_added(const std::filesystem::path& folder, const ModelFile& file);

}  // namespace tessera
