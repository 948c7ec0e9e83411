#pragma once
#include <string>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

/// WikiText as it was before it was cut into words: the replacements of Megatron-LM v2.6
/// (tasks/zeroshot_gpt/detokenizer.py), in their order, with Python's white space.
std::string detokenized(std::string_view text);
/// Parts between single spaces, without white space at the ends of the text: two spaces have an
/// empty part between them.
i64 single_space_tokens(std::string_view text);

}  // namespace tessera
