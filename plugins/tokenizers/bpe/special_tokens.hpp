#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bpe_files.hpp"
#include "tessera/io/claims.hpp"

namespace tessera {

/// The texts that are one token wherever they stand, as tokenizer_config.json,
/// special_tokens_map.json and added_tokens.json of the folder say, together with `files.added`;
/// empty where the folder has none of these files nor tokenizer.json. Those of the vocabulary have
/// its ids, others larger ones. Throws ConfigError naming file and key where these files ask for
/// what the tokenizer gpt2 does not do, or say what it does not know.
std::optional<std::vector<AddedToken>> special_tokens(const std::filesystem::path& folder,
                                                      const BpeFiles& files);

/// The settings of a file beside the vocabulary. Throws ConfigError naming it.
Claims claims_of_file(const std::filesystem::path& file);
/// Claims what may stand in any tokenizer_config.json and changes no token; code of the tokenizer's
/// own is refused.
void claim_usual_keys(Claims& claims);
/// Calls take(entry, id, text) with each of "added_tokens_decoder": "added_tokens_decoder.5", "5",
/// the value of its "content".
void for_decoder_tokens(
    const Claims& claims,
    const std::function<void(const std::string& entry, const std::string& id, const Value& text)>&
        take);

}  // namespace tessera
