#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Reads Megatron-Core's pipeline layout: "E" embedding, "t" block, "L" head with the loss, "|"
/// next stage, "(x)*n" and "x*n" repetition, commas and spaces without meaning. Returns one string
/// of letters a stage: "Et*2|(t|)*2,tL" is {"Ett", "t", "t", "tL"}. Throws ConfigError that shows
/// the place.
std::vector<std::string> parse_layout(std::string_view text);

}  // namespace tessera
