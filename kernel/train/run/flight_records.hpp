#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "kernel/comm/rank.hpp"

namespace tessera {

/// Where the ranks of a run write which collectives they started last.
std::string flight_records_file(const std::string& out);

/// Adds this rank's part: why it fails, and the last collectives of its groups. Parts of several
/// ranks, and of several failures of one run, follow each other whole. What cannot be written is
/// left out: another failure is to be told. `replaying`: the step that is replayed as a whole.
void add_flight_records(const Rank& rank,
                        const std::string& out,
                        std::string_view why,
                        std::optional<i64> replaying = {}) noexcept;

}  // namespace tessera
