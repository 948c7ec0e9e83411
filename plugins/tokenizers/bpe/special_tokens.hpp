#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "bpe_files.hpp"

namespace tessera {

/// The texts that are one token wherever they stand, as tokenizer_config.json,
/// special_tokens_map.json and added_tokens.json of the folder say, together with `files.added`;
/// empty where the folder has none of these files nor tokenizer.json. Those of the vocabulary have
/// its ids, others larger ones. Throws ConfigError naming file and key where these files ask for
/// what the tokenizer gpt2 does not do, or say what it does not know.
std::optional<std::vector<AddedToken>> special_tokens(const std::filesystem::path& folder,
                                                      const BpeFiles& files);

}  // namespace tessera
