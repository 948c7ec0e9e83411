#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// One thing that must be the same on all ranks: its name in errors ("configuration") and its text.
using Fact = std::pair<std::string, std::string>;

constexpr std::string_view kSameForAll =
    "start all ranks with the same program, plugins, files and settings";

/// Facts on their way between ranks. Throws Error for what pack_facts did not write.
std::string pack_facts(const std::vector<Fact>& facts);
std::vector<Fact> unpack_facts(std::string_view text);

/// The first difference of two ranks' facts (of long texts the line), followed by `advice`; empty
/// when there is none.
std::string describe_difference(const std::vector<Fact>& mine,
                                i64 my_rank,
                                const std::vector<Fact>& theirs,
                                i64 their_rank,
                                std::string_view advice = kSameForAll);

}  // namespace tessera
