#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace tessera {

/// What the files beside a vocabulary say of a token with a role.
struct NamedText {
  bool said = false;                ///< one of the files has the key
  std::optional<std::string> text;  ///< none: it is null there
};

/// The text of `key`, as "eos_token", in tokenizer_config.json of the folder, or else in
/// special_tokens_map.json. Throws ConfigError naming the file where it is damaged, or where the
/// value is no text.
NamedText named_text(const std::filesystem::path& folder, const std::string& key);

}  // namespace tessera
