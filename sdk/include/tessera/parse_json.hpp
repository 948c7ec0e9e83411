#pragma once
#include <string_view>

#include "tessera/error.hpp"

namespace tessera {

/// Objects and arrays may lie in each other so deeply, and no deeper, in a JSON text that is read.
inline constexpr int kDeepestJson = 32;

/// Reads JSON that somebody else wrote:
///
///     const auto json = parse_json<nlohmann::json>(text);
///     if (!json.is_object()) fail_config("{} holds no JSON object", path);
///
/// JsonTree is a type of nlohmann-json, which the SDK does not include. What is no JSON gives a
/// discarded value, or with `explain` the library's exception. Throws Error where the text is
/// nested more deeply than `kDeepestJson`, while it is read: copying, printing and freeing such a
/// tree take stack for each level. Every reader of JSON goes through here; a lint looks for others.
template <class JsonTree>
JsonTree parse_json(std::string_view text, bool explain = false) {
  const auto shallow = [](int depth, auto, auto&) {
    require(
        depth < kDeepestJson, "more than {} objects and arrays lie in each other", kDeepestJson);
    return true;
  };
  return JsonTree::parse(text, shallow, explain);
}

}  // namespace tessera
