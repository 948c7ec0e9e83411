#pragma once
#include <string>
#include <vector>

#include "tessera/schedule.hpp"

namespace tessera::testing {

/// Verifies a schedule as a run would, for every number of microbatches given, with and without
/// training. Returns what is wrong with the first shape that is refused, or nothing:
///
///     EXPECT_EQ(schedule_check(mine, 4, {1, 4, 8, 13}), "");
TESSERA_API std::string schedule_check(const PipelineSchedule& schedule,
                                       int ranks,
                                       const std::vector<int>& microbatches);

}  // namespace tessera::testing
